/* Identification of system calls by number. */
#pragma once

#include "probe/bpf/kernel-types.h"

#include "probe/bpf/kernel-records.h"

#if defined(__TARGET_ARCH_arm64)
#define NUMBER_OF_EXECVE   221
#define NUMBER_OF_EXECVEAT 281
#else
#define NUMBER_OF_EXECVE   59
#define NUMBER_OF_EXECVEAT 322
#define X32_BIT            0x40000000
#endif
#define COMPAT_NUMBER_OF_EXECVE   11
#define COMPAT_NUMBER_OF_EXECVEAT 358

static __always_inline bool is_compat(struct task_struct *task)
{
#if defined(__TARGET_ARCH_arm64)
    return task->thread_info.flags >> 22 & 1; /* TIF_32BIT */
#else
    return task->thread_info.status & 2; /* TS_COMPAT: of the present call, not of the program */
#endif
}

static __always_inline u32 call_of(struct task_struct *task, long number)
{
    u32 call = number;

#if defined(X32_BIT)
    call &= ~X32_BIT;
#endif
    if (number < 0 || call >= CALL_OTHER)
        call = CALL_OTHER;
    return is_compat(task) ? CALL_COMPAT + call : call;
}

static __always_inline long number_in(struct pt_regs *regs)
{
#if defined(__TARGET_ARCH_arm64)
    return regs->syscallno;
#else
    return (long)regs->orig_ax;
#endif
}

static __always_inline bool is_exec(u32 call)
{
    return call == NUMBER_OF_EXECVE || call == NUMBER_OF_EXECVEAT ||
           call == CALL_COMPAT + COMPAT_NUMBER_OF_EXECVE ||
           call == CALL_COMPAT + COMPAT_NUMBER_OF_EXECVEAT;
}
