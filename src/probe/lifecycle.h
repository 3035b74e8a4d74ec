/* Process events reported by the kernel, from the process connector or from sonde's BPF programs.
 * The BPF programs report more fields; a field that was not reported is INT_UNKNOWN or NULL, and 0
 * for the tag and the start. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum lifecycle_kind {
    LIFECYCLE_FORK,   /* a new process */
    LIFECYCLE_THREAD, /* a new thread of a process */
    LIFECYCLE_EXEC,
    LIFECYCLE_EXIT,   /* a thread ended; the process ends with its last one */
    LIFECYCLE_SIGNAL, /* a signal was sent to a process */
    LIFECYCLE_OOM,    /* the OOM killer kills a process */
};

struct syscall_profile;

struct lifecycle_event {
    enum lifecycle_kind kind;
    pid_t pid;       /* the process */
    pid_t tid;       /* the thread that started or ended */
    pid_t ppid;      /* on fork: the process that forked; on exit: its parent; 0: not known */
    int wait_status; /* on exit: as from wait4() */
    uint64_t mono_ns;

    uint32_t tag;         /* of the run that the BPF programs assign it to */
    uint64_t start_ticks; /* of the process */

    /* The sender of the event owns the strings; they are valid during the callback. */
    const char *command; /* on exec: the command line; on exit and OOM: the short name */
    int64_t cpu_ns;      /* on exit: exact, without children */
    int64_t user_ns;
    int64_t peak_rss_bytes; /* on exec: of the programs before it; on exit: of all its programs */
    int64_t missing_peak_bytes; /* the most that one of these can have, if it is not known; or 0 */
    int64_t read_bytes;
    int64_t write_bytes;
    const struct syscall_profile *calls; /* on exit: all its system calls; NULL: not counted */

    int signal_num;
    pid_t sender_pid;        /* 0: the kernel */
    const char *sender_name; /* the kernel's short name */
    int64_t sender_uid;
    bool is_from_terminal;  /* a key such as Ctrl-C, or job control */
    uint64_t cpu_limit_sec; /* the limit of CPU time that the process reached; 0: another reason */

    const char *details; /* on OOM: the sizes of the process, for people */
    int64_t uid;         /* on OOM: of the process */
};

typedef void (*lifecycle_fn)(void *context, const struct lifecycle_event *event);

/* Sets all fields to unknown or 0. */
void lifecycle_event_init(struct lifecycle_event *event, enum lifecycle_kind kind);
