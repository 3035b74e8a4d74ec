/* The run that a process belongs to: a tag set by sonde or inherited at fork. Every new thread gets
 * the tag, because an exec may make any thread the first one. Threads that existed before the tag
 * was set use that of their leader. */
#pragma once

#include "probe/bpf/kernel-types.h"

#include <bpf/bpf_helpers.h>

/* The kernel stores the value with the task and frees it with the task. */
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

/* The tag of any thread. */
static __always_inline u32 tag_of(struct task_struct *task)
{
    u32 tag = own_tag_of(task);

    return tag || task->pid == task->tgid ? tag : own_tag_of(task->group_leader);
}
