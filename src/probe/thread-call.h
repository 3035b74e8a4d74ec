/* The system call that a thread is in, as one look has found it, whoever looked. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "model/syscall-name.h"

struct thread_call {
    pid_t pid;                   /* of its process */
    unsigned call;               /* SYSCALL_NONE: none */
    bool is_on_cpu;              /* then it may have returned from the call already */
    uint64_t user_ns, system_ns; /* of the thread, as far as ticks have told; both may be 0 */
};

typedef void (*thread_call_fn)(void *context, const struct thread_call *call);
