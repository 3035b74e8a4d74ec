/* Reports forks, execs, exits, signals and OOM kills through one ring buffer.
 *
 * Tags are inherited here, at the fork: even a child that lives for a millisecond belongs to its
 * run. */
#pragma once

#include "probe/bpf/kernel-types.h"

#include "probe/bpf/call-counts.bpf.h"
#include "probe/bpf/kernel-functions.bpf.h"
#include "probe/bpf/kernel-membership.bpf.h"
#include "probe/bpf/kernel-memory.bpf.h"
#include "probe/bpf/kernel-records.h"
#include "probe/bpf/kernel-ring.bpf.h"
#include "probe/bpf/kernel-threads.bpf.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

/* Set before loading: events of all processes, not only of those with a tag. */
const volatile bool wants_all = false;
const volatile bool reports_final_cpu = true; /* the program on sched_switch is loaded */

/* ---- fork and exec ---- */

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct trusted_task *original_parent, struct trusted_task *original_child)
{
    struct task_struct *parent = plain_task(original_parent), *child = plain_task(original_child);
    u32 parent_tag = tag_of(original_parent);
    u32 tag = parent_tag ? set_tag(original_child, parent_tag) : 0;

    inherit_counting(original_parent, original_child);
    if ((!parent_tag && !wants_all) || child->pid != child->tgid)
        return 0;
    struct kernel_fork *event = reserve(sizeof(*event));
    if (!event)
        return 0;
    fill_head(&event->head, KERNEL_FORK, child, tag);
    event->parent_pid = parent->tgid;
    event->shares_memory = child->mm && child->mm == parent->mm;
    event->start_boot_ns = child->start_boottime;
    bpf_ringbuf_submit(event, wake_flags(parent_tag));
    return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct trusted_task *original, pid_t old_pid, struct linux_binprm *program)
{
    struct task_struct *task = plain_task(original);
    u32 tag = tag_of(original);
    if (!tag && !wants_all)
        return 0;
    struct kernel_exec *event = reserve(sizeof(*event));
    if (!event)
        return 0;
    fill_head(&event->head, KERNEL_EXEC, task, tag);
    event->start_boot_ns = task->start_boottime;
    event->former_pages = task->signal->maxrss;
    __builtin_memcpy(event->name, task->comm, sizeof(event->name));
    event->padding = 0;
    event->length = 0;
    struct mm_struct *mm = task->mm;
    u64 start = mm->arg_start;
    u32 length = mm->arg_end - start;
    /* Without the barriers the compiler bounds a copy but uses the original for the read. */
    barrier_var(length);
    if (length > COMMAND_BYTES)
        length = COMMAND_BYTES;
    barrier_var(length);
    if (!bpf_probe_read_user(event->command, length, (void *)start))
        event->length = length;
    bpf_ringbuf_submit(event, wake_flags(tag));
    return 0;
}

/* ---- exit ---- */

/* The status that wait4 will return: of the group or of its first thread. */
static __always_inline s32 wait_status_of(struct task_struct *task, struct signal_struct *signal)
{
    return signal->flags & SIGNAL_GROUP_EXIT ? signal->group_exit_code
                                             : task->group_leader->exit_code;
}

/* Since Linux 6.16 a process still has its memory here. */
static __always_inline s64 peak_of(struct task_struct *task)
{
    struct mm_struct *mm = task->mm;

    if (!mm)
        return -1;
    struct memory_pages now = memory_of(mm);
    s64 rss = now.file + now.anon + now.shmem;
    s64 noted = mm->hiwater_rss;
    return rss > noted ? rss : noted;
}

SEC("tp_btf/sched_process_exit") int BPF_PROG(on_exit, struct trusted_task *original)
{
    struct task_struct *task = plain_task(original);
    struct signal_struct *signal = task->signal;
    struct thread_sums sums = {.without = (u64)task};

    if (signal->live.counter != 0) /* other threads live; two that exit at once may both see 0 */
        return 0;
    u32 tag = tag_of(original);
    if (!tag && !wants_all)
        return 0;
    send_calls(task, tag);
    sum_threads(signal, &sums);
    s64 peak_pages = peak_of(task);
    struct kernel_exit *event = reserve(sizeof(*event));
    if (!event)
        return 0;
    fill_head(&event->head, KERNEL_EXIT, task, tag);
    event->start_boot_ns = task->group_leader->start_boottime;
    event->other_cpu_ns = sums.cpu_ns;
    event->other_user_ns = sums.user_ns;
    event->other_system_ns = sums.system_ns;
    event->peak_pages = peak_pages;
    event->former_pages = signal->maxrss;
    event->other_read_bytes = sums.read_bytes;
    event->other_write_bytes = sums.write_bytes;
    event->wait_status = wait_status_of(task, signal);
    event->parent_pid = task->real_parent->tgid;
    event->is_exact = reports_final_cpu;
    event->padding = 0;
    __builtin_memcpy(event->name, task->comm, sizeof(event->name));
    bpf_ringbuf_submit(event, wake_flags(tag));
    return 0;
}

/* The kernel adds the last slice when the task leaves the CPU for the last time: at the exit, four
 * fifths of the CPU time of a short process are still missing. The run queue is locked here, so
 * nothing may be woken; the reader expects this event. */
SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool is_preempted, struct trusted_task *original,
             struct trusted_task *after)
{
    struct task_struct *before = plain_task(original);

    if (!(before->__state & TASK_DEAD))
        return 0;
    struct signal_struct *signal = before->signal;
    if (signal->live.counter != 0)
        return 0;
    u32 tag = tag_of(original);
    if (!tag && !wants_all)
        return 0;
    struct kernel_dead *event = reserve(sizeof(*event));
    if (!event)
        return 0;
    fill_head(&event->head, KERNEL_DEAD, before, tag);
    event->start_boot_ns = before->group_leader->start_boottime;
    event->last_cpu_ns = before->se.sum_exec_runtime;
    event->last_user_ns = before->utime;
    event->last_system_ns = before->stime;
    event->reported_user_ns = signal->prev_cputime.utime;
    event->reported_system_ns = signal->prev_cputime.stime;
    event->last_read_bytes = before->ioac.read_bytes;
    event->last_write_bytes = before->ioac.write_bytes;
    bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
    return 0;
}

/* ---- signals ---- */

#define NUMBER_OF_KILL   9
#define NUMBER_OF_XCPU   24
#define CODE_KERNEL      0x80
#define SIGNAL_DELIVERED 0 /* TRACE_SIGNAL_DELIVERED: neither ignored nor pending already */

/* Returns whether a program may get the signal many times a second: timers, children, the Go
 * runtime. */
static __always_inline bool is_frequent(int number)
{
    const u64 mask = 1ULL << 14 | 1ULL << 17 | 1ULL << 23 | 1ULL << 26 | 1ULL << 27 | 1ULL << 28 |
                     1ULL << 29; /* ALRM CHLD URG VTALRM PROF WINCH IO */

    return number >= 32 || (mask >> number & 1);
}

/* Returns whether the present task is the sender: kill, sigqueue, tgkill, a message queue. Timers
 * interrupt an arbitrary task. */
static __always_inline bool has_sender(s32 code)
{
    return code == 0 || code == -1 || code == -3 || code == -6;
}

/* A process without a tag may be assigned to a run a moment later, so its SIGKILL is reported,
 * which comes only once. The number of other signals is not limited. */
static __always_inline bool is_reported(u32 tag, int number)
{
    return tag ? !is_frequent(number) : wants_all && number == NUMBER_OF_KILL;
}

/* Returns the limit of CPU time because of which the kernel sends the signal; 0: there is another
 * reason. The kernel compares the same figures. */
static __always_inline u64 cpu_limit_of(struct signal_struct *signal, int number)
{
    u64 limit = number == NUMBER_OF_KILL   ? signal->rlim[RLIMIT_CPU].rlim_max
                : number == NUMBER_OF_XCPU ? signal->rlim[RLIMIT_CPU].rlim_cur
                                           : 0;

    if (!limit || !bpf_core_field_exists(signal->cputimer))
        return 0;
    u64 used_ns = signal->cputimer.cputime_atomic.utime.counter +
                  signal->cputimer.cputime_atomic.stime.counter;
    return used_ns / 1000000000 >= limit ? limit : 0;
}

SEC("tp_btf/signal_generate")
int BPF_PROG(on_signal, int number, struct kernel_siginfo *info, struct trusted_task *task,
             int group, int result)
{
    u32 tag = tag_of(task);

    if (result != SIGNAL_DELIVERED || !is_reported(tag, number))
        return 0;
    struct kernel_signal *event = reserve(sizeof(*event));
    if (!event)
        return 0;
    struct task_struct *sender = plain_task(current_task());
    fill_head(&event->head, KERNEL_SIGNAL, plain_task(task), tag);
    event->number = number;
    /* 0 (SEND_SIG_NOINFO) is a signal from a process without details, 1 (SEND_SIG_PRIV) one from
     * the kernel. */
    event->code = (u64)info > 1 ? info->si_code : (u64)info ? CODE_KERNEL : 0;
    event->cpu_limit_sec =
        event->code == CODE_KERNEL ? cpu_limit_of(plain_task(task)->signal, number) : 0;
    event->sender_pid = has_sender(event->code) ? sender->tgid : 0;
    event->sender_uid = sender->real_cred->uid.val;
    __builtin_memcpy(event->sender_name, sender->comm, sizeof(event->sender_name));
    bpf_ringbuf_submit(event, wake_flags(tag));
    return 0;
}

/* For all processes: an OOM kill concerns the whole machine. */
SEC("tp_btf/mark_victim") int BPF_PROG(on_oom, struct trusted_task *original)
{
    struct kernel_oom *event = reserve(sizeof(*event));
    if (!event)
        return 0;
    struct task_struct *task = plain_task(original);
    struct task_struct *trigger = plain_task(current_task());
    struct mm_struct *mm = task->mm;
    struct memory_pages pages = {};

    fill_head(&event->head, KERNEL_OOM, task, tag_of(original));
    event->start_boot_ns = task->group_leader->start_boottime;
    event->vsize_pages = 0;
    if (mm) {
        pages = memory_of(mm);
        event->vsize_pages = mm->total_vm;
    }
    event->anon_pages = pages.anon;
    event->file_pages = pages.file;
    event->shmem_pages = pages.shmem;
    event->uid = task->real_cred->uid.val;
    event->score_adjust = task->signal->oom_score_adj;
    event->trigger_pid = trigger->tgid;
    event->padding = 0;
    __builtin_memcpy(event->name, task->comm, sizeof(event->name));
    __builtin_memcpy(event->trigger_name, trigger->comm, sizeof(event->trigger_name));
    bpf_ringbuf_submit(event, wake_flags(true));
    return 0;
}
