/* The run that a process belongs to: a tag of each of its threads, because an exec may make any
 * thread the first one. sonde sets it for the threads that exist, new ones and children inherit it
 * at the fork. */
#pragma once

#include "probe/bpf/kernel-types.h"

#include "probe/bpf/kernel-functions.bpf.h"
#include "probe/bpf/kernel-records.h"

#include <bpf/bpf_helpers.h>

/* The kernel stores the value with the task and frees it with the task. */
struct {
    __uint(type, BPF_MAP_TYPE_TASK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, u32);
} membership SEC(".maps");

struct tag_request tag_request;
u64 lost_tags; /* tags that a thread could not get */

static __always_inline u32 own_tag_of(struct trusted_task *task)
{
    u32 *tag = bpf_task_storage_get(&membership, (struct task_struct *)task, 0, 0);

    return tag ? *tag : 0;
}

/* Fails if the storage of another task was just being changed on that CPU. */
static __always_inline u32 set_tag(struct trusted_task *task, u32 tag)
{
    u32 *own = bpf_task_storage_get(&membership, (struct task_struct *)task, &tag,
                                    BPF_LOCAL_STORAGE_GET_F_CREATE);

    if (own)
        return *own = tag;
    __sync_fetch_and_add(&lost_tags, 1);
    return 0;
}

/* The tag of a thread that could not get its own is that of its process or of its parent. */
static __always_inline u32 inherited_tag_of(const struct task_struct *task)
{
    struct trusted_task *source =
        task_from_pid(task->pid == task->tgid ? task->real_parent->pid : task->tgid);
    if (!source)
        return 0;
    u32 tag = own_tag_of(source);

    release_task(source);
    return tag;
}

/* The tag of any thread. */
static __always_inline u32 tag_of(struct trusted_task *task)
{
    u32 tag = own_tag_of(task);

    return tag || !lost_tags ? tag : inherited_tag_of(plain_task(task));
}

/* A thread that is created meanwhile comes later in the list than its creator: either it inherits
 * the tag, or the walk finds it. */
SEC("syscall") int tag_threads(void *context)
{
    struct trusted_task *process = task_from_pid(tag_request.pid), *thread;
    struct bpf_iter_task walk;
    u32 tag = tag_request.tag;

    if (!process)
        return 0;
    bpf_rcu_read_lock();
    bpf_iter_task_new(&walk, (struct task_struct *)process, BPF_TASK_ITER_PROC_THREADS);
    while ((thread = next_task(&walk)))
        if (tag)
            set_tag(thread, tag);
        else
            bpf_task_storage_delete(&membership, (struct task_struct *)thread);
    bpf_iter_task_destroy(&walk);
    bpf_rcu_read_unlock();
    release_task(process);
    return 0;
}
