/* The functions of the kernel that the programs call. A kernel may lack some of them; it then
 * rejects the programs that call those. */
#pragma once

#include "probe/bpf/kernel-types.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

extern int bpf_iter_task_new(struct bpf_iter_task *it, struct task_struct *task,
                             unsigned int flags) __ksym __weak;
extern struct task_struct *bpf_iter_task_next(struct bpf_iter_task *it) __ksym __weak;
extern void bpf_iter_task_destroy(struct bpf_iter_task *it) __ksym __weak;
extern void bpf_rcu_read_lock(void) __ksym __weak;
extern void bpf_rcu_read_unlock(void) __ksym __weak;
extern struct task_struct *bpf_task_from_pid(s32 pid) __ksym __weak;
extern void bpf_task_release(struct task_struct *task) __ksym __weak;
extern void *bpf_rdonly_cast(const void *object, u32 btf_id) __ksym __weak;

/* A task that a program was given: task storage and the functions above need it, and its members
 * are read through plain_task() only. For every pointer that is loaded through a trusted pointer,
 * the verifier searches the kernel's type information by name, up to four times; that was half of
 * the time that loading took. */
struct trusted_task;

static __always_inline struct task_struct *plain_task(const void *task)
{
    return bpf_rdonly_cast(task, bpf_core_type_id_kernel(struct task_struct));
}

static __always_inline struct trusted_task *current_task(void)
{
    return (struct trusted_task *)bpf_get_current_task_btf();
}

static __always_inline struct trusted_task *task_from_pid(s32 pid)
{
    return (struct trusted_task *)bpf_task_from_pid(pid);
}

static __always_inline void release_task(struct trusted_task *task)
{
    bpf_task_release((struct task_struct *)task);
}

static __always_inline struct trusted_task *next_task(struct bpf_iter_task *walk)
{
    return (struct trusted_task *)bpf_iter_task_next(walk);
}
