/* One sample of the system call that a thread is in, from procfs or from the kernel programs. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "model/syscall-name.h"

struct thread_call {
    pid_t pid;                   /* of its process */
    unsigned call;               /* SYSCALL_NONE: none */
    bool is_on_cpu;              /* if so, it may have returned from the call already */
    uint64_t user_ns, system_ns; /* of the thread, in clock ticks; both are 0 if not sampled */
};

typedef void (*thread_call_fn)(void *context, const struct thread_call *call);
