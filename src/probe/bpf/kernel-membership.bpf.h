/* To which run a process belongs, as far as the kernel knows: a tag that user space has given it,
 * or that it has inherited. It lies with every thread, because any of them may become the first one
 * by an exec; threads that were there before have only their leader's. */
#pragma once

#include "probe/bpf/kernel-types.h"

#include <bpf/bpf_helpers.h>

/* The value lies with the task and is freed with it. */
struct {
    __uint(type, BPF_MAP_TYPE_TASK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, u32);
} membership SEC(".maps");

static __always_inline u32 own_tag_of(struct task_struct *task)
{
    u32 *tag = bpf_task_storage_get(&membership, task, 0, 0);

    return tag ? *tag : 0;
}

/* Of any thread. */
static __always_inline u32 tag_of(struct task_struct *task)
{
    u32 tag = own_tag_of(task);

    return tag || task->pid == task->tgid ? tag : own_tag_of(task->group_leader);
}
