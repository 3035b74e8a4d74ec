/* Converts the records of the ring buffer to lifecycle events. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/human.h"
#include "base/macros.h"
#include "model/field.h"
#include "model/process.h"
#include "model/syscall-profile.h"
#include "probe/bpf/kernel-object.h"
#include "probe/bpf/kernel-skeleton.h"
#include "probe/bpf/kernel-times.h"
#include "probe/proc-cmdline.h"

/* A task that was waited for leaves the CPU within microseconds, unless it was preempted. */
#define SETTLE_STEP_NS (500 * NS_PER_USEC)

/* The system calls of a process that is ending; the kernel sends them just before the exit. */
struct ending_calls {
    uint64_t start_boot_ns;
    struct syscall_profile profile;
};

static void begin_event(const struct kernel_probe *probe, enum lifecycle_kind kind,
                        const struct kernel_event *head, uint64_t start_boot_ns,
                        struct lifecycle_event *ret)
{
    lifecycle_event_init(ret, kind);
    ret->pid = head->pid;
    ret->tid = head->tid;
    ret->tag = head->tag;
    ret->mono_ns = head->mono_ns;
    ret->start_ticks = start_boot_ns / probe->ns_per_tick;
}

static void report_event(struct kernel_probe *probe, const struct lifecycle_event *event)
{
    probe->events.on_event(probe->events.context, event);
}

/* A process sets its own name, which may have no NUL. */
static const char *copy_name(const char *name, char into[static TASK_NAME_SIZE + 1])
{
    memcpy(into, name, TASK_NAME_SIZE);
    into[TASK_NAME_SIZE] = '\0';
    return into;
}

/* ---- records to events ---- */

static void free_ending_calls(struct ending_calls *ending)
{
    if (ending)
        syscall_profile_done(&ending->profile);
    free(ending);
}

static void report_exit(void *context, const struct kernel_exit *exit,
                        const struct kernel_dead *dead)
{
    struct kernel_probe *probe = context;
    struct ending_calls *ending = map_remove(&probe->events.ending_calls, (uint64_t)exit->head.pid);
    struct lifecycle_event event;
    char name[TASK_NAME_SIZE + 1];

    begin_event(probe, LIFECYCLE_EXIT, &exit->head, exit->start_boot_ns, &event);
    event.tid = event.pid; /* the last thread: the process */
    event.ppid = exit->parent_pid;
    event.wait_status = exit->wait_status;
    event.command = copy_name(exit->name, name);
    if (dead) {
        const struct kernel_times split = kernel_split_times(
            &(struct kernel_times){.cpu_ns = exit->other_cpu_ns + dead->last_cpu_ns,
                                   .user_ns = exit->other_user_ns + dead->last_user_ns,
                                   .system_ns = exit->other_system_ns + dead->last_system_ns,
                                   .reported_user_ns = dead->reported_user_ns,
                                   .reported_system_ns = dead->reported_system_ns});
        event.cpu_ns = (int64_t)split.cpu_ns;
        event.user_ns = (int64_t)split.user_ns;
        event.read_bytes = (int64_t)(exit->other_read_bytes + dead->last_read_bytes);
        event.write_bytes = (int64_t)(exit->other_write_bytes + dead->last_write_bytes);
    }
    const struct known_peak peak = process_peaks_at_exit(&probe->events.peaks, event.pid,
                                                         exit->former_pages, exit->peak_pages);
    event.peak_rss_bytes = peak.bytes;
    event.missing_peak_bytes = peak.missing_bytes;
    event.calls = ending ? &ending->profile : NULL;
    report_event(probe, &event);
    free_ending_calls(ending);
}

static void handle_fork(struct kernel_probe *probe, const struct kernel_fork *fork)
{
    struct lifecycle_event event;

    endings_settle(&probe->events.endings, fork->head.pid); /* an earlier process with the pid */
    begin_event(probe, LIFECYCLE_FORK, &fork->head, fork->start_boot_ns, &event);
    event.ppid = fork->parent_pid;
    if (fork->parent_pid == getpid())
        process_peaks_forked_by_sonde(&probe->events.peaks, event.pid);
    else
        process_peaks_forked(&probe->events.peaks, event.pid, fork->shares_memory);
    report_event(probe, &event);
}

static void handle_exec(struct kernel_probe *probe, const struct kernel_exec *exec)
{
    struct lifecycle_event event;
    char command[COMMAND_MAX_BYTES + 1], name[TASK_NAME_SIZE + 1];
    size_t length = MIN(exec->length, (uint32_t)COMMAND_BYTES);

    begin_event(probe, LIFECYCLE_EXEC, &exec->head, exec->start_boot_ns, &event);
    if (proc_cmdline_parse(exec->command, length, command, sizeof(command)) == 0)
        proc_cmdline_from_name(copy_name(exec->name, name), command, sizeof(command));
    event.command = command;
    const struct known_peak peak =
        process_peaks_before_exec(&probe->events.peaks, event.pid, exec->former_pages);
    event.peak_rss_bytes = peak.bytes;
    event.missing_peak_bytes = peak.missing_bytes;
    report_event(probe, &event);
}

static struct ending_calls *get_ending_calls(struct kernel_probe *probe, pid_t pid)
{
    struct ending_calls *ending = map_get(&probe->events.ending_calls, (uint64_t)pid);
    if (ending)
        return ending;

    ending = calloc(1, sizeof(*ending));
    if (ending && map_put(&probe->events.ending_calls, (uint64_t)pid, ending) < 0) {
        free(ending);
        return NULL;
    }
    return ending;
}

/* If the exit event of an earlier process was lost, its calls are still stored under the pid. */
static void handle_calls(struct kernel_probe *probe, const struct kernel_calls *calls, size_t size)
{
    size_t room = (size - offsetof(struct kernel_calls, items)) / sizeof(calls->items[0]);
    size_t count = MIN((size_t)calls->count, room);
    struct ending_calls *ending = get_ending_calls(probe, calls->head.pid);

    if (ending && ending->start_boot_ns != calls->start_boot_ns) {
        ending->start_boot_ns = calls->start_boot_ns;
        syscall_profile_clear(&ending->profile);
    }
    for (size_t i = 0; i < count; i++) {
        const struct kernel_call *item = &calls->items[i];
        const struct syscall_sum sum = {.call = item->call,
                                        .count = item->sum.count,
                                        .ns = item->sum.ns,
                                        .errors = item->sum.errors};
        if (!ending || syscall_profile_add(&ending->profile, &sum) < 0)
            probe->calls.dropped += sum.count;
    }
}

/* The kernel sends these only for a terminal. A timer of the process may send them as well, but
 * with another code. SIGHUP and SIGCONT are not in this list, although a terminal sends them too:
 * the kernel also sends both to stopped process groups that become orphans. */
static bool is_from_terminal(const struct kernel_signal *signal)
{
    static const int numbers[] = {SIGINT, SIGQUIT, SIGTSTP, SIGTTIN, SIGTTOU};

    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
        if (signal->number == numbers[i])
            return signal->code == SI_KERNEL;
    return false;
}

static void handle_signal(struct kernel_probe *probe, const struct kernel_signal *signal)
{
    struct lifecycle_event event;
    char name[TASK_NAME_SIZE + 1];

    begin_event(probe, LIFECYCLE_SIGNAL, &signal->head, 0, &event);
    event.signal_num = signal->number;
    event.sender_pid = signal->sender_pid;
    event.sender_uid = signal->sender_uid;
    event.is_from_terminal = is_from_terminal(signal);
    event.cpu_limit_sec = signal->cpu_limit_sec;
    if (signal->sender_pid)
        event.sender_name = copy_name(signal->sender_name, name);
    report_event(probe, &event);
}

static double mb_of(int64_t pages)
{
    return (double)MAX(pages, (int64_t)0) * (double)sysconf(_SC_PAGESIZE) / BYTES_PER_MB;
}

static void handle_oom(struct kernel_probe *probe, const struct kernel_oom *oom)
{
    struct lifecycle_event event;
    char name[TASK_NAME_SIZE + 1], trigger[TASK_NAME_SIZE + 1], details[256];
    int64_t rss_pages = oom->anon_pages + oom->file_pages + oom->shmem_pages;
    struct human rss, anon, size;

    begin_event(probe, LIFECYCLE_OOM, &oom->head, oom->start_boot_ns, &event);
    event.uid = oom->uid;
    event.command = copy_name(oom->name, name);
    event.peak_rss_bytes = MAX(rss_pages, (int64_t)0) * sysconf(_SC_PAGESIZE);
    event.sender_pid = oom->trigger_pid;
    event.sender_name = copy_name(oom->trigger_name, trigger);
    snprintf(details, sizeof(details),
             "out of memory: resident %s (%s anonymous), address space %s, oom_score_adj %d",
             human_mb(&rss, mb_of(rss_pages)), human_mb(&anon, mb_of(oom->anon_pages)),
             human_mb(&size, mb_of((int64_t)oom->vsize_pages)), (int)oom->score_adjust);
    event.details = details;
    report_event(probe, &event);
}

/* ---- the ring ---- */

static int on_sample(void *context, void *data, size_t size)
{
    struct kernel_probe *probe = context;
    struct endings *endings = &probe->events.endings;
    const struct kernel_event *head = data;

    if (size < sizeof(*head))
        return 0;
    switch (head->kind) {
    case KERNEL_FORK: handle_fork(probe, data); break;
    case KERNEL_EXEC: handle_exec(probe, data); break;
    case KERNEL_EXIT: endings_exit(endings, data, probe->events.lost_reported); break;
    case KERNEL_DEAD: endings_dead(endings, data, clock_mono_ns()); break;
    case KERNEL_SIGNAL: handle_signal(probe, data); break;
    case KERNEL_OOM: handle_oom(probe, data); break;
    case KERNEL_CALLS: handle_calls(probe, data, size); break;
    }
    return 0;
}

static int consume(struct kernel_probe *probe)
{
    int r = ring_buffer__consume(probe->events.ring);
    return r < 0 ? r : 0;
}

int kernel_probe_fd(const struct kernel_probe *probe)
{
    return ring_buffer__epoll_fd(probe->events.ring);
}

uint64_t kernel_probe_lost(const struct kernel_probe *probe)
{
    return __atomic_load_n(&probe->object->bss->lost_events, __ATOMIC_RELAXED);
}

int kernel_probe_drain(struct kernel_probe *probe, lifecycle_fn on_event, void *context)
{
    struct kernel_events *events = &probe->events;

    events->on_event = on_event;
    events->context = context;
    int r = consume(probe);
    if (r < 0)
        return r;
    uint64_t lost = kernel_probe_lost(probe);
    endings_overdue(&events->endings, clock_mono_ns(), lost);
    bool has_lost = lost != events->lost_reported;
    events->lost_reported = lost;
    return has_lost;
}

bool kernel_probe_sleep(struct kernel_probe *probe)
{
    if (probe->events.endings.tagged)
        return false;
    __atomic_store_n(&probe->object->bss->reader_sleeps, 1, __ATOMIC_SEQ_CST);
    /* An event that came before the flag was visible does not wake the reader. */
    return consume(probe) == 0 && !probe->events.endings.tagged && kernel_probe_sleeps(probe);
}

bool kernel_probe_sleeps(const struct kernel_probe *probe)
{
    return __atomic_load_n(&probe->object->bss->reader_sleeps, __ATOMIC_SEQ_CST);
}

bool kernel_probe_awaits_end(const struct kernel_probe *probe, pid_t pid)
{
    return endings_has(&probe->events.endings, pid);
}

void kernel_probe_settle(struct kernel_probe *probe, pid_t pid, uint64_t patience_ns,
                         lifecycle_fn on_event, void *context)
{
    struct endings *endings = &probe->events.endings;
    uint64_t until_ns = clock_mono_ns() + patience_ns;

    probe->events.on_event = on_event;
    probe->events.context = context;
    while (endings_has(endings, pid) && clock_mono_ns() < until_ns) {
        nanosleep(&(struct timespec){.tv_nsec = SETTLE_STEP_NS}, NULL);
        consume(probe);
    }
    endings_settle(endings, pid);
}

int kernel_events_start(struct kernel_probe *probe)
{
    endings_init(&probe->events.endings, report_exit, probe);
    probe->events.ring =
        ring_buffer__new(bpf_map__fd(probe->object->maps.ring), on_sample, probe, NULL);
    return probe->events.ring ? 0 : -errno;
}

void kernel_events_stop(struct kernel_probe *probe)
{
    size_t position = 0;

    endings_done(&probe->events.endings);
    for (struct ending_calls *ending; (ending = map_next(&probe->events.ending_calls, &position));)
        free_ending_calls(ending);
    map_done(&probe->events.ending_calls);
    process_peaks_done(&probe->events.peaks);
    if (probe->events.ring)
        ring_buffer__free(probe->events.ring);
}
