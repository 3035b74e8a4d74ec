/* Samples the system call that each thread of the listed processes is in, without any cost for the
 * threads that make calls. */
#pragma once

#include "probe/bpf/kernel-types.h"

#include "probe/bpf/kernel-calls.bpf.h"
#include "probe/bpf/kernel-records.h"
#include "probe/bpf/processes.bpf.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

struct thread_request thread_request;

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, THREAD_CHUNK);
    __type(key, u32);
    __type(value, struct thread_record);
} threads SEC(".maps");

/* The number is among the registers saved at kernel entry. It is valid for a thread that is on no
 * CPU: such a thread is still in the kernel, and an interrupt or a fault stores -1. A thread on a
 * CPU may have returned, with the number of its last call left behind. */
static __always_inline void fill_thread(struct trusted_task *original, struct thread_record *record)
{
    struct task_struct *task = plain_task(original);
    bool was_on_cpu = task->on_cpu;
    struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs((struct task_struct *)original);
    long number = number_in(regs);

    record->pid = task->tgid;
    record->call = number == -1 ? CALL_NONE : call_of(task, number);
    record->is_on_cpu = was_on_cpu || task->on_cpu;
    record->user_ns = task->utime;
    record->system_ns = task->stime;
}

/* A stopped thread does not wait in a call, and kernel threads make no calls. */
static __always_inline bool can_be_in_call(struct task_struct *task)
{
    return !task->exit_state && !(task->__state & TASK_HALTED) &&
           !(task->flags & (PF_EXITING | PF_IO_WORKER | PF_USER_WORKER | PF_KTHREAD));
}

/* Returns false if there was no room for all threads. The counters are in memory, where the
 * verifier does not track them: otherwise it would verify the loop once for each of their values.
 */
static __always_inline bool fill_threads(struct trusted_task *process)
{
    struct bpf_iter_task walk;
    struct trusted_task *task;
    bool has_room = true;

    thread_request.seen = 0;
    bpf_rcu_read_lock();
    bpf_iter_task_new(&walk, (struct task_struct *)process, BPF_TASK_ITER_PROC_THREADS);
    while ((task = next_task(&walk))) {
        u32 number = thread_request.seen++;
        if (number < thread_request.at_thread || !can_be_in_call(plain_task(task)))
            continue;
        u32 key = thread_request.count;
        struct thread_record *record = bpf_map_lookup_elem(&threads, &key);
        if (!record) {
            thread_request.at_thread = number;
            has_room = false;
            break;
        }
        fill_thread(task, record);
        thread_request.count = key + 1;
    }
    bpf_iter_task_destroy(&walk);
    bpf_rcu_read_unlock();
    return has_room;
}

static long sample_process(u32 step, void *context)
{
    u32 key = thread_request.at_pid;
    u64 *pid = key < thread_request.pid_count ? bpf_map_lookup_elem(&wanted_pids, &key) : NULL;

    if (!pid)
        return 1;
    struct trusted_task *task = task_from_pid(*pid);
    if (task) {
        bool has_room = fill_threads(task);
        release_task(task);
        if (!has_room)
            return 1;
    }
    thread_request.at_pid = key + 1;
    thread_request.at_thread = 0;
    return 0;
}

SEC("syscall") int sample_calls(void *context)
{
    thread_request.count = 0;
    bpf_loop(PROCESS_CHUNK, sample_process, NULL, 0);
    return 0;
}
