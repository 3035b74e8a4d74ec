/* What happens to tasks, as the kernel tells it: the same events whether they come from the process
 * connector or from BPF. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

enum lifecycle_kind {
    LIFECYCLE_FORK,   /* a new process */
    LIFECYCLE_THREAD, /* a new thread of one */
    LIFECYCLE_EXEC,
    LIFECYCLE_EXIT, /* a thread ended; the process ends with its last one */
};

struct lifecycle_event {
    enum lifecycle_kind kind;
    pid_t pid;       /* the process */
    pid_t tid;       /* the thread that started or ended */
    pid_t ppid;      /* on fork: the process that forked */
    int wait_status; /* on exit: as wait4 would give it */
    uint64_t mono_ns;
};

typedef void (*lifecycle_fn)(void *context, const struct lifecycle_event *event);
