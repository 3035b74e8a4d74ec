/* Sums over all threads of a process. */
#pragma once

#include "probe/bpf/kernel-types.h"

#include "probe/bpf/kernel-functions.bpf.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#define THREADS_MAX 65536

struct thread_sums {
    u64 cpu_ns, user_ns, system_ns;
    u64 faults;
    u64 read_bytes, write_bytes;
    u64 mm, files; /* of a thread that still has them */
    u32 state, exit_state;
    bool has_living;
    u64 without;  /* the thread that is not added; 0: none */
    u64 at, head; /* of the list of threads */
};

static long add_thread(u32 number, struct thread_sums *sums)
{
    if (sums->at == sums->head || !sums->at)
        return 1;
    /* The cast permits plain loads; BPF_CORE_READ would call a helper for each member (15 µs per
     * process instead of 1 µs). */
    struct task_struct *thread =
        plain_task((void *)(sums->at - bpf_core_field_offset(struct task_struct, thread_node)));

    if ((u64)thread != sums->without) {
        sums->cpu_ns += thread->se.sum_exec_runtime;
        sums->user_ns += thread->utime;
        sums->system_ns += thread->stime;
        sums->read_bytes += thread->ioac.read_bytes;
        sums->write_bytes += thread->ioac.write_bytes;
    }
    sums->faults += thread->min_flt + thread->maj_flt;
    if (!sums->mm && thread->mm) {
        sums->mm = (u64)thread->mm;
        sums->files = (u64)thread->files;
    }
    if (!sums->has_living && !thread->exit_state) {
        sums->has_living = true;
        sums->state = thread->__state;
        sums->exit_state = thread->exit_state;
    }
    sums->at = (u64)thread->thread_node.next;
    return 0;
}

/* signal->ioac contains ended threads and reaped children. The blocks (getrusage()) of both are
 * counted separately; a block has 512 bytes. I/O in smaller parts, as on some network file systems,
 * is rounded down per thread. */
static __always_inline u64 block_bytes(unsigned long blocks)
{
    return (u64)blocks << 9;
}

static __always_inline void sum_threads(struct signal_struct *signal, struct thread_sums *sums)
{
    sums->head = (u64)signal + bpf_core_field_offset(struct signal_struct, thread_head);
    sums->at = (u64)signal->thread_head.next;
    bpf_loop(THREADS_MAX, add_thread, sums, 0);
    sums->cpu_ns += signal->sum_sched_runtime;
    sums->user_ns += signal->utime;
    sums->system_ns += signal->stime;
    sums->faults += signal->min_flt + signal->maj_flt;
    sums->read_bytes += block_bytes(signal->inblock);
    sums->write_bytes += block_bytes(signal->oublock);
}
