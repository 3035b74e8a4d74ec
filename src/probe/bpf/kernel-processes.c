/* Converts the records of the BPF programs to readings. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "base/vec.h"
#include "model/field.h"
#include "probe/bpf/kernel-object.h"
#include "probe/bpf/kernel-skeleton.h"
#include "probe/bpf/kernel-times.h"
#include "probe/process-command.h"

/* Values of task->__state and exit_state, for the state letter. */
#define STATE_REPORTED 0x7f
#define STATE_IDLE     0x402 /* uninterruptible without load: an idle kernel thread */
#define STATE_RTLOCK   0x1000
#define STATE_FROZEN   0x8000
#define EXIT_DEAD      0x10

struct known_process {
    pid_t pid;
    unsigned generation;
    uint64_t start_boot_ns;
    struct process_command command;
};

/* ---- records to readings ---- */

static char state_letter(const struct process_record *record)
{
    static const char letters[] = "RSDTtXZPI";
    uint32_t state = (record->state | record->exit_state) & STATE_REPORTED;

    if ((record->state & STATE_IDLE) == STATE_IDLE)
        return 'I';
    if (record->state & (STATE_RTLOCK | STATE_FROZEN))
        return 'D';
    return letters[state ? 32 - __builtin_clz(state) : 0];
}

static int64_t pages_to_bytes(const struct kernel_processes *processes, int64_t pages)
{
    return MAX(pages, (int64_t)0) * (int64_t)processes->page_bytes;
}

static void fill_reading(const struct kernel_probe *probe, const struct process_record *record,
                         struct process_reading *reading)
{
    const struct kernel_processes *processes = &probe->processes;

    *reading = (struct process_reading){
        .pid = record->pid,
        .ppid = record->ppid,
        .start_ticks = record->start_boot_ns / probe->ns_per_tick,
        .mono_ns = record->mono_ns,
        .state = state_letter(record),
        .threads = record->threads,
        .uid = record->uid,
        .cpu_ns = (int64_t)record->cpu_ns,
        .reaped_user_ns = (int64_t)record->reaped_user_ns,
        .reaped_system_ns = (int64_t)record->reaped_system_ns,
        .vsize_bytes = pages_to_bytes(processes, (int64_t)record->vsize_pages),
        .rss_bytes = pages_to_bytes(processes, record->rss_pages),
        .shared_bytes = pages_to_bytes(processes, record->shared_pages),
        .shmem_bytes = pages_to_bytes(processes, record->shmem_pages),
        .faults = (int64_t)record->faults,
        .open_fds = record->open_fds,
        .arg_start = record->arg_start,
        .memory_id = record->memory,
        .is_forked = record->is_forked,
        .peak_rss_bytes = INT_UNKNOWN,
        .fd_limit = (int64_t)MIN(record->fd_limit, (uint64_t)INT64_MAX),
        .read_bytes = (int64_t)record->read_bytes,
        .write_bytes = (int64_t)record->write_bytes,
        .reaped_read_bytes = (int64_t)record->reaped_read_bytes,
        .reaped_write_bytes = (int64_t)record->reaped_write_bytes,
        .ignores_sigchld = record->ignores_sigchld,
        .is_ending = record->is_ending,
        .tag = record->tag,
    };
    const struct kernel_times split = kernel_split_times(
        &(struct kernel_times){.cpu_ns = record->cpu_ns,
                               .user_ns = record->user_ns,
                               .system_ns = record->system_ns,
                               .reported_user_ns = record->reported_user_ns,
                               .reported_system_ns = record->reported_system_ns});
    reading->user_ns = (int64_t)split.user_ns;
    reading->system_ns = (int64_t)split.system_ns;
    if (record->has_memory)
        reading->peak_rss_bytes =
            pages_to_bytes(processes, MAX((int64_t)record->peak_pages, record->rss_pages));
}

/* ---- cached data ---- */

static void known_process_free(struct known_process *known)
{
    if (!known)
        return;
    process_command_done(&known->command);
    free(known);
}

/* Returns the entry of a process, reset if the pid belongs to a new process; NULL if out of memory.
 */
static struct known_process *get_known(struct kernel_processes *processes,
                                       const struct process_record *record)
{
    struct known_process *known = map_get(&processes->known, (uint64_t)record->pid);

    if (known && known->start_boot_ns == record->start_boot_ns)
        return known;
    if (known) {
        process_command_done(&known->command);
        known->start_boot_ns = record->start_boot_ns;
        known->generation = processes->generation - 1;
        return known;
    }
    known = calloc(1, sizeof(*known));
    if (known && map_put(&processes->known, (uint64_t)record->pid, known) < 0) {
        free(known);
        return NULL;
    }
    if (known) {
        known->pid = record->pid;
        known->start_boot_ns = record->start_boot_ns;
        known->generation = processes->generation - 1;
    }
    return known;
}

/* Drops processes that the present reading did not see. */
static void drop_gone(struct kernel_processes *processes)
{
    size_t position = 0;
    struct known_process *known;

    if (processes->seen == processes->known.count)
        return;
    while ((known = map_next(&processes->known, &position)))
        if (known->generation != processes->generation) {
            map_remove(&processes->known, (uint64_t)known->pid);
            known_process_free(known);
            position--;
        }
}

static int set_command(const struct kernel_processes *processes, struct known_process *known,
                       const struct process_record *record, const struct redaction *redaction,
                       struct process_reading *reading)
{
    const struct process_title title = {
        .pid = record->pid,
        .name = record->name,
        .arg_start = record->arg_start,
        .state = reading->state,
        .is_kernel_thread = record->is_kernel_thread,
        .is_cut = true,
    };
    int r = 0;

    if (process_command_is_stale(&known->command, &title))
        r = process_command_refresh(&known->command, processes->root_fd, &title);
    return r < 0 ? r : process_command_show(&known->command, redaction, &reading->command);
}

/* ---- readings ---- */

static void begin_reading(struct kernel_probe *probe, struct readings *out)
{
    probe->object->bss->request.reading = ++probe->processes.generation;
    probe->object->bss->request.first = 0;
    probe->processes.seen = 0;
    out->count = 0;
    out->moment = moment_now();
}

static int add_record(struct kernel_probe *probe, const struct process_record *record,
                      probe_depth_fn depth, void *context, struct readings *out)
{
    struct kernel_processes *processes = &probe->processes;

    if (record->exit_state & EXIT_DEAD) /* reaped: its figures belong to its parent now */
        return 0;
    struct known_process *known = get_known(processes, record);
    int r = known ? VEC_RESERVE(out, out->count + 1) : -ENOMEM;
    if (r < 0)
        return r;
    if (known->generation == processes->generation) /* two chunks overlap */
        return 0;
    known->generation = processes->generation;
    processes->seen++;
    struct process_reading *reading = &out->items[out->count];
    fill_reading(probe, record, reading);
    if (depth && depth(context, reading) == PROBE_SKIP)
        return 0;
    r = set_command(processes, known, record, out->redaction, reading);
    if (r == 0)
        out->count++;
    return r;
}

static int add_records(struct kernel_probe *probe, probe_depth_fn depth, void *context,
                       struct readings *out)
{
    const struct walk_request *request = &probe->object->bss->request;
    const struct process_record *records = &probe->processes.records[request->first];
    uint32_t count = MIN(request->count, (uint32_t)PROCESS_CHUNK);
    int r = 0;

    for (uint32_t i = 0; i < count && r == 0; i++)
        r = add_record(probe, &records[i], depth, context, out);
    return r;
}

int kernel_probe_scan(struct kernel_probe *probe, probe_depth_fn depth, void *context,
                      struct readings *out, size_t *ret_total)
{
    volatile struct walk_request *request = &probe->object->bss->request;
    int program = bpf_program__fd(probe->object->progs.read_processes);

    begin_reading(probe, out);
    request->is_list = false;
    request->after_address = request->after_start_boot_ns = 0;
    request->limit = PROCESS_CHUNK;
    do {
        int r = kernel_run(program);
        if (r == 0)
            r = add_records(probe, depth, context, out);
        if (r < 0)
            return r;
        if (!request->count)
            break;
        const struct process_record *last =
            &probe->processes.records[request->first + request->count - 1];
        request->after_address = last->address;
        request->after_start_boot_ns = last->start_boot_ns;
        request->first = (request->first + PROCESS_CHUNK) % PROCESS_RECORDS;
    } while (!request->is_end);
    /* Some processes ended after they were read, and some present ones were not read. */
    *ret_total = MAX((size_t)request->total, probe->processes.seen);
    drop_gone(&probe->processes);
    return 0;
}

void kernel_set_pids(struct kernel_probe *probe, const pid_t *pids, size_t count)
{
    for (size_t i = 0; i < count; i++)
        probe->processes.wanted_pids[i] = (uint64_t)pids[i];
}

int kernel_probe_read_pids(struct kernel_probe *probe, const pid_t *pids, size_t count,
                           bool are_all, struct readings *out)
{
    volatile struct walk_request *request = &probe->object->bss->request;
    int program = bpf_program__fd(probe->object->progs.read_processes);

    begin_reading(probe, out);
    request->is_list = true;
    for (size_t first = 0; first < count; first += PROCESS_CHUNK) {
        size_t chunk = MIN(count - first, (size_t)PROCESS_CHUNK);
        kernel_set_pids(probe, pids + first, chunk);
        request->limit = (uint32_t)chunk;
        int r = kernel_run(program);
        if (r == 0)
            r = add_records(probe, NULL, NULL, out);
        if (r < 0)
            return r;
    }
    if (are_all)
        drop_gone(&probe->processes);
    return 0;
}

/* ---- start and stop ---- */

/* Pids and start times must equal those in `proc_root`, which identify processes everywhere else.
 * They differ in another time namespace. */
static int check_identity(struct kernel_probe *probe, const char *proc_root)
{
    _cleanup_(procfs_freep) struct procfs *procfs = NULL;
    struct readings ours = {0}, theirs = {0};
    const pid_t self = getpid();

    int r = procfs_new(proc_root, 0, &procfs);
    if (r == 0)
        r = procfs_read_pids(procfs, &self, 1, &theirs);
    if (r == 0)
        r = kernel_probe_read_pids(probe, &self, 1, true, &ours);
    if (r == 0 && (ours.count != 1 || theirs.count != 1 || ours.items[0].pid != self ||
                   ours.items[0].start_ticks != theirs.items[0].start_ticks))
        r = -EXDEV;
    readings_done(&ours);
    readings_done(&theirs);
    return r;
}

int kernel_processes_start(struct kernel_probe *probe, const char *proc_root)
{
    struct kernel_processes *processes = &probe->processes;
    struct kernel *object = probe->object;

    processes->page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    processes->root_fd = open(proc_root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (processes->root_fd < 0)
        return -errno;
    processes->records = kernel_map_memory(object->maps.records, sizeof(*processes->records),
                                           PROCESS_RECORDS, PROT_READ);
    processes->wanted_pids =
        kernel_map_memory(object->maps.wanted_pids, sizeof(*processes->wanted_pids), PROCESS_CHUNK,
                          PROT_READ | PROT_WRITE);
    if (!processes->records || !processes->wanted_pids)
        return -errno;
    return check_identity(probe, proc_root);
}

void kernel_processes_stop(struct kernel_probe *probe)
{
    struct kernel_processes *processes = &probe->processes;
    size_t position = 0;

    for (struct known_process *known; (known = map_next(&processes->known, &position));)
        known_process_free(known);
    map_done(&processes->known);
    kernel_unmap_memory(processes->records, sizeof(*processes->records), PROCESS_RECORDS);
    kernel_unmap_memory(processes->wanted_pids, sizeof(*processes->wanted_pids), PROCESS_CHUNK);
    processes->root_fd = close_fd(processes->root_fd);
}
