/* Births, programs, ends, signals and kills for memory, as they happen, through one ring buffer.
 *
 * Membership is inherited here, at the fork itself: a child that lives for a millisecond belongs to
 * its run like any other. */
#pragma once

#include "probe/bpf/kernel-types.h"

#include "probe/bpf/call-counts.bpf.h"
#include "probe/bpf/kernel-membership.bpf.h"
#include "probe/bpf/kernel-memory.bpf.h"
#include "probe/bpf/kernel-records.h"
#include "probe/bpf/kernel-ring.bpf.h"
#include "probe/bpf/kernel-threads.bpf.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

/* Set before the programs are loaded: events of all processes, not only of those with a tag. */
const volatile bool wants_all = false;
const volatile bool tells_final_cpu = true; /* the program on sched_switch is there, too */

u64 lost_tags; /* that a child should have inherited */

/* A child could not be tagged if somebody else's storage was just being changed on that CPU: then
 * it is known by its parent, until it has a tag of its own. */
static __always_inline u32 tag_of_process(struct task_struct *task)
{
    u32 tag = tag_of(task);

    return tag || !lost_tags ? tag : own_tag_of(task->real_parent);
}

/* ---- births and programs ---- */

static __always_inline u32 inherit(struct task_struct *child, u32 tag)
{
    u32 *own = bpf_task_storage_get(&membership, child, &tag, BPF_LOCAL_STORAGE_GET_F_CREATE);

    if (own)
        return tag;
    __sync_fetch_and_add(&lost_tags, 1);
    return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
    u32 parent_tag = tag_of_process(parent);
    u32 tag = parent_tag ? inherit(child, parent_tag) : 0;

    inherit_counting(parent, child);
    if ((!parent_tag && !wants_all) || child->pid != child->tgid)
        return 0;
    struct kernel_fork *event = reserve(sizeof(*event));
    if (!event)
        return 0;
    fill_head(&event->head, KERNEL_FORK, child, tag);
    event->parent_pid = parent->tgid;
    event->parent_tag = parent_tag;
    event->start_boot_ns = child->start_boottime;
    __builtin_memcpy(event->name, child->comm, sizeof(event->name));
    bpf_ringbuf_submit(event, wake_flags(parent_tag));
    return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task, pid_t old_pid, struct linux_binprm *program)
{
    u32 tag = tag_of_process(task);
    if (!tag && !wants_all)
        return 0;
    struct kernel_exec *event = reserve(sizeof(*event));
    if (!event)
        return 0;
    fill_head(&event->head, KERNEL_EXEC, task, tag);
    event->start_boot_ns = task->start_boottime;
    __builtin_memcpy(event->name, task->comm, sizeof(event->name));
    event->padding = 0;
    event->length = 0;
    struct mm_struct *mm = task->mm;
    u64 start = mm->arg_start;
    u32 length = mm->arg_end - start;
    /* Without the barriers the compiler bounds a copy and reads with the original. */
    barrier_var(length);
    if (length > COMMAND_BYTES)
        length = COMMAND_BYTES;
    barrier_var(length);
    if (!bpf_probe_read_user(event->command, length, (void *)start))
        event->length = length;
    bpf_ringbuf_submit(event, wake_flags(tag));
    return 0;
}

/* ---- ends ---- */

/* What wait4 will say: that is decided by the group, or by its first thread. */
static __always_inline s32 wait_status_of(struct task_struct *task, struct signal_struct *signal)
{
    return signal->flags & SIGNAL_GROUP_EXIT ? signal->group_exit_code
                                             : task->group_leader->exit_code;
}

/* Since Linux 6.16 a process still has its memory here; before, what it had at most is noted, but
 * with what it had before its last exec. */
static __always_inline s64 peak_of(struct task_struct *task, struct signal_struct *signal)
{
    struct mm_struct *mm = task->mm;

    if (!mm)
        return signal->maxrss ? (s64)signal->maxrss : -1;
    struct memory_pages now = memory_of(mm);
    s64 rss = now.file + now.anon + now.shmem;
    s64 noted = mm->hiwater_rss;
    return rss > noted ? rss : noted;
}

SEC("tp_btf/sched_process_exit") int BPF_PROG(on_exit, struct task_struct *task)
{
    struct signal_struct *signal = task->signal;
    struct thread_sums sums = {.without = (u64)task};

    if (signal->live.counter != 0) /* other threads go on; two that end at once may both see 0 */
        return 0;
    u32 tag = tag_of_process(task);
    if (!tag && !wants_all)
        return 0;
    tell_calls(task, tag);
    sum_threads(signal, &sums);
    s64 peak_pages = peak_of(task, signal);
    struct kernel_exit *event = reserve(sizeof(*event));
    if (!event)
        return 0;
    fill_head(&event->head, KERNEL_EXIT, task, tag);
    event->start_boot_ns = task->group_leader->start_boottime;
    event->other_cpu_ns = sums.cpu_ns;
    event->user_ns = sums.user_ns;
    event->system_ns = sums.system_ns;
    event->peak_pages = peak_pages;
    event->read_bytes = sums.read_bytes;
    event->write_bytes = sums.write_bytes;
    event->wait_status = wait_status_of(task, signal);
    event->parent_pid = task->real_parent->tgid;
    event->is_exact = tells_final_cpu;
    event->padding = 0;
    __builtin_memcpy(event->name, task->comm, sizeof(event->name));
    bpf_ringbuf_submit(event, wake_flags(tag));
    return 0;
}

/* The last slice is accounted for when the task leaves the CPU for good: at its exit four fifths of
 * what a short process used are still missing. The run queue is locked here: nobody may be woken,
 * and the reader knows that this one comes. */
SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool is_preempted, struct task_struct *before, struct task_struct *after)
{
    if (!(before->__state & TASK_DEAD) || before->signal->live.counter != 0)
        return 0;
    u32 tag = tag_of_process(before);
    if (!tag && !wants_all)
        return 0;
    struct kernel_dead *event = reserve(sizeof(*event));
    if (!event)
        return 0;
    fill_head(&event->head, KERNEL_DEAD, before, tag);
    event->start_boot_ns = before->group_leader->start_boottime;
    event->last_cpu_ns = before->se.sum_exec_runtime;
    bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
    return 0;
}

/* ---- signals ---- */

#define NUMBER_OF_KILL   9
#define SIGNAL_DELIVERED 0 /* TRACE_SIGNAL_DELIVERED: neither ignored nor pending already */

/* Those that programs are driven by, many a second: timers, children, the runtime of Go. */
static __always_inline bool is_everyday(int number)
{
    const u64 mask = 1ULL << 14 | 1ULL << 17 | 1ULL << 23 | 1ULL << 26 | 1ULL << 27 | 1ULL << 28 |
                     1ULL << 29; /* ALRM CHLD URG VTALRM PROF WINCH IO */

    return number >= 32 || (mask >> number & 1);
}

/* Whether whoever is on the CPU has sent it: kill, sigqueue, tgkill, a message queue. Timers and
 * the like come in the midst of anybody's work. */
static __always_inline bool has_sender(s32 code)
{
    return code == 0 || code == -1 || code == -3 || code == -6;
}

/* Of those that may be found to be of a run in a moment, only what comes once: a process can be
 * sent as many others as it likes. */
static __always_inline bool is_told(u32 tag, int number)
{
    return tag ? !is_everyday(number) : wants_all && number == NUMBER_OF_KILL;
}

SEC("tp_btf/signal_generate")
int BPF_PROG(on_signal, int number, struct kernel_siginfo *info, struct task_struct *task,
             int group, int result)
{
    u32 tag = tag_of(task);

    if (result != SIGNAL_DELIVERED || !is_told(tag, number))
        return 0;
    struct kernel_signal *event = reserve(sizeof(*event));
    if (!event)
        return 0;
    struct task_struct *sender = (struct task_struct *)bpf_get_current_task_btf();
    fill_head(&event->head, KERNEL_SIGNAL, task, tag);
    event->number = number;
    /* 0 and 1 stand for "from a process, without more" and "from the kernel". */
    event->code = (u64)info > 1 ? info->si_code : (u64)info ? 0x80 : 0;
    event->sender_pid = has_sender(event->code) ? sender->tgid : 0;
    event->sender_uid = sender->real_cred->uid.val;
    __builtin_memcpy(event->sender_name, sender->comm, sizeof(event->sender_name));
    bpf_ringbuf_submit(event, wake_flags(tag));
    return 0;
}

/* Of everyone: a machine without memory is everybody's business. */
SEC("tp_btf/mark_victim") int BPF_PROG(on_oom, struct task_struct *task)
{
    struct kernel_oom *event = reserve(sizeof(*event));
    if (!event)
        return 0;
    struct task_struct *trigger = (struct task_struct *)bpf_get_current_task_btf();
    struct mm_struct *mm = task->mm;
    struct memory_pages pages = {};

    fill_head(&event->head, KERNEL_OOM, task, tag_of(task));
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
