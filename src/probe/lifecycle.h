/* What happens to processes, as the kernel tells it: the same events whether they come from the
 * process connector or from programs of our own in the kernel, which tell more. What is not told is
 * unknown: INT_UNKNOWN, NULL, or 0 for a tag and a start. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum lifecycle_kind {
    LIFECYCLE_FORK,   /* a new process */
    LIFECYCLE_THREAD, /* a new thread of one */
    LIFECYCLE_EXEC,
    LIFECYCLE_EXIT,   /* a thread ended; the process ends with its last one */
    LIFECYCLE_SIGNAL, /* one is on its way to a process */
    LIFECYCLE_OOM,    /* the kernel kills a process for its memory */
};

struct syscall_profile;

struct lifecycle_event {
    enum lifecycle_kind kind;
    pid_t pid;       /* the process */
    pid_t tid;       /* the thread that started or ended */
    pid_t ppid;      /* on fork: the process that forked */
    int wait_status; /* on exit: as wait4 would give it */
    uint64_t mono_ns;

    uint32_t tag;         /* of the run that the kernel takes it for a member of */
    uint64_t start_ticks; /* of the process */

    /* Texts are the teller's, until the next event. */
    const char *command; /* on exec: the command line; on exit and OOM: the short name */
    int64_t cpu_ns;      /* on exit: all that it has used itself, exactly */
    int64_t user_ns;
    int64_t peak_rss_bytes;
    int64_t read_bytes;
    int64_t write_bytes;
    const struct syscall_profile *calls; /* on exit: all that it has called; NULL: not counted */

    int signal_num;
    pid_t sender_pid;        /* 0: the kernel itself */
    const char *sender_name; /* short */
    int64_t sender_uid;
    bool is_from_terminal; /* a key such as Ctrl-C, or job control */

    const char *details; /* on OOM: what the kernel has said */
    int64_t uid;         /* on OOM: of the process */
};

typedef void (*lifecycle_fn)(void *context, const struct lifecycle_event *event);

/* All that can be unknown is. */
void lifecycle_event_init(struct lifecycle_event *event, enum lifecycle_kind kind);
