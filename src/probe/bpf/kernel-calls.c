/* System calls: samples of the call that each thread is in, and counts of all calls. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "model/syscall-profile.h"
#include "probe/bpf/kernel-object.h"
#include "probe/bpf/kernel-skeleton.h"

static_assert(CALL_COMPAT == SYSCALL_COMPAT && CALL_OTHER == SYSCALL_OTHER &&
                  CALL_COUNT == SYSCALL_COUNT && CALL_NONE == SYSCALL_NONE,
              "both sides use the same numbers");

#define SUMS_PER_BATCH 1024

/* ---- samples ---- */

static void report_threads(const struct kernel_probe *probe, thread_call_fn on_thread,
                           void *context)
{
    uint32_t count = MIN(probe->object->bss->thread_request.count, (uint32_t)THREAD_CHUNK);

    for (uint32_t i = 0; i < count; i++) {
        const struct thread_record *record = &probe->calls.threads[i];
        on_thread(context, &(struct thread_call){.pid = record->pid,
                                                 .call = record->call,
                                                 .is_on_cpu = record->is_on_cpu,
                                                 .user_ns = record->user_ns,
                                                 .system_ns = record->system_ns});
    }
}

int kernel_probe_sample_calls(struct kernel_probe *probe, const pid_t *pids, size_t count,
                              thread_call_fn on_thread, void *context)
{
    volatile struct thread_request *request = &probe->object->bss->thread_request;
    int program = bpf_program__fd(probe->object->progs.sample_calls);

    for (size_t first = 0; first < count; first += PROCESS_CHUNK) {
        size_t chunk = MIN(count - first, (size_t)PROCESS_CHUNK);
        kernel_set_pids(probe, pids + first, chunk);
        request->pid_count = (uint32_t)chunk;
        request->at_pid = request->at_thread = 0;
        do {
            int r = kernel_run(program);
            if (r < 0)
                return r;
            report_threads(probe, on_thread, context);
        } while (request->at_pid < chunk && request->count);
    }
    return 0;
}

int kernel_calls_start(struct kernel_probe *probe)
{
    probe->calls.threads = kernel_map_memory(
        probe->object->maps.threads, sizeof(*probe->calls.threads), THREAD_CHUNK, PROT_READ);
    return probe->calls.threads ? 0 : -errno;
}

/* ---- counts ---- */

static void detach(struct kernel_calls_state *calls)
{
    if (calls->on_call)
        bpf_link__destroy(calls->on_call);
    if (calls->on_return)
        bpf_link__destroy(calls->on_return);
    calls->on_call = calls->on_return = NULL;
}

static int attach(struct kernel_probe *probe)
{
    struct kernel_calls_state *calls = &probe->calls;

    calls->on_return = bpf_program__attach(probe->object->progs.on_return);
    if (calls->on_return)
        calls->on_call = bpf_program__attach(probe->object->progs.on_call);
    if (calls->on_call)
        return 0;
    int r = -errno;
    detach(calls);
    return r;
}

typedef int (*batch_fn)(int map_fd, void *at, void *next, void *keys, void *values, __u32 *count,
                        const struct bpf_map_batch_opts *options);

/* Calls `on_sum` (may be NULL) for every entry, with `step` to read a batch. Returns 0 or a
 * negative errno. */
static int read_sums(const struct kernel_probe *probe, batch_fn step, process_calls_fn on_sum,
                     void *context)
{
    _cleanup_free_ struct call_key *keys = malloc(SUMS_PER_BATCH * sizeof(*keys));
    _cleanup_free_ struct call_sum *sums = malloc(SUMS_PER_BATCH * sizeof(*sums));
    int map_fd = bpf_map__fd(probe->object->maps.call_sums);
    __u32 at = 0;
    bool is_first = true;
    int r = 0;

    if (!keys || !sums)
        return -ENOMEM;
    while (r == 0) {
        __u32 count = SUMS_PER_BATCH, next = 0;
        r = step(map_fd, is_first ? NULL : &at, &next, keys, sums, &count, NULL);
        if (r < 0 && r != -ENOENT) /* -ENOENT comes with the last batch */
            return r;
        for (__u32 i = 0; i < count && on_sum; i++)
            on_sum(context, keys[i].pid,
                   &(struct syscall_sum){.call = keys[i].call,
                                         .count = sums[i].count,
                                         .ns = sums[i].ns,
                                         .errors = sums[i].errors});
        at = next;
        is_first = false;
    }
    return 0;
}

/* Drops the entries of processes that still live. */
static void drop_callers(const struct kernel_probe *probe)
{
    int map_fd = bpf_map__fd(probe->object->maps.callers);
    int32_t pid;

    while (bpf_map_get_next_key(map_fd, NULL, &pid) == 0 && bpf_map_delete_elem(map_fd, &pid) == 0)
        ;
}

int kernel_probe_count_calls(struct kernel_probe *probe, bool is_wanted)
{
    struct kernel_calls_state *calls = &probe->calls;

    if (!probe->has[KERNEL_PART_CALL_COUNTS])
        return is_wanted ? -EOPNOTSUPP : 0;
    if (is_wanted == kernel_probe_counts_calls(probe))
        return 0;
    if (!is_wanted) {
        detach(calls);
        probe->object->bss->call_generation = 0;
        read_sums(probe, bpf_map_lookup_and_delete_batch, NULL, NULL);
        drop_callers(probe);
        return 0;
    }
    int r = attach(probe);
    if (r == 0)
        probe->object->bss->call_generation = ++calls->generation;
    return r;
}

bool kernel_probe_counts_calls(const struct kernel_probe *probe)
{
    return probe->calls.on_call != NULL;
}

int kernel_probe_count_calls_of(struct kernel_probe *probe, pid_t pid, enum counting_start start)
{
    const struct call_state state = {.generation = probe->calls.generation,
                                     .waits_for_exec = start == COUNT_FROM_EXEC};
    _cleanup_close_ int pid_fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (pid_fd < 0)
        return -errno;

    return bpf_map_update_elem(bpf_map__fd(probe->object->maps.calling), &pid_fd, &state, BPF_ANY);
}

void kernel_probe_stop_counting_calls_of(struct kernel_probe *probe, pid_t pid)
{
    _cleanup_close_ int pid_fd = (int)syscall(SYS_pidfd_open, pid, 0);

    if (pid_fd >= 0)
        bpf_map_delete_elem(bpf_map__fd(probe->object->maps.calling), &pid_fd);
}

int kernel_probe_read_calls(struct kernel_probe *probe, process_calls_fn on_sum, void *context)
{
    return read_sums(probe, bpf_map_lookup_batch, on_sum, context);
}

uint64_t kernel_probe_lost_calls(const struct kernel_probe *probe)
{
    return __atomic_load_n(&probe->object->bss->lost_calls, __ATOMIC_RELAXED) +
           __atomic_load_n(&probe->object->bss->lost_callers, __ATOMIC_RELAXED) +
           probe->calls.dropped;
}

void kernel_calls_stop(struct kernel_probe *probe)
{
    detach(&probe->calls);
    kernel_unmap_memory(probe->calls.threads, sizeof(*probe->calls.threads), THREAD_CHUNK);
}
