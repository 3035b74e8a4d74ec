/* Plain access to the members of a task.
 *
 * For every pointer that is loaded through a trusted pointer, the verifier searches the kernel's
 * type information by name, up to four times: half of the time that loading takes. A cast pointer
 * is read without these searches. Task storage and kfuncs need the original. */
#pragma once

#include "probe/bpf/kernel-types.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

extern void *bpf_rdonly_cast(const void *object, u32 btf_id) __ksym __weak;

static __always_inline struct task_struct *plain_task(const void *task)
{
    return bpf_rdonly_cast(task, bpf_core_type_id_kernel(struct task_struct));
}
