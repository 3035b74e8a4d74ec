/* Raw readings, which a collector passes to `sample`. They contain no rates, no jobs, nothing
 * derived.
 *
 * Unknown values are INT_UNKNOWN. Each process has the time at which its CPU time was read, because
 * a scan over thousands of processes takes long enough to distort rates. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"

struct redaction;

struct process_reading {
    pid_t pid;
    pid_t ppid;
    uint64_t start_ticks; /* with the pid, the process's identity */
    uint64_t mono_ns;     /* when cpu_ns was read */
    char state;
    int64_t threads;
    int64_t uid;

    int64_t cpu_ns;  /* all threads, including ended ones; without children */
    int64_t user_ns; /* in clock ticks; only for the split into user and system */
    int64_t system_ns;
    int64_t reaped_user_ns; /* of reaped children and their reaped children; in clock ticks */
    int64_t reaped_system_ns;

    int64_t vsize_bytes;
    int64_t rss_bytes;
    int64_t shared_bytes; /* the part that is files and shared memory; the rest is anonymous */
    int64_t faults;       /* page faults so far, minor and major, of all threads */
    int64_t open_fds;
    uint64_t arg_start; /* differs between programs: set at exec, copied at fork; 0: unknown */
    uint64_t memory_id; /* equal in processes that share all their memory; 0: unknown */
    bool is_forked;     /* it has not called exec: its memory is a copy of its parent's */

    /* extras: more expensive, read only on request */
    int64_t peak_rss_bytes;
    int64_t shmem_bytes; /* the part of shared_bytes that is shared memory, with tmpfs */
    int64_t fd_limit;
    int64_t read_bytes; /* like cpu_ns without children */
    int64_t write_bytes;
    int64_t reaped_read_bytes; /* of reaped children and their reaped children */
    int64_t reaped_write_bytes;
    bool ignores_sigchld;
    bool is_ending; /* exiting or a zombie; set only by the kernel collector */
    uint32_t tag;   /* of the run that the kernel programs assign it to; 0: none or unknown */

    const char *command; /* redacted; owned by the collector, valid until its next reading */
};

struct readings {
    struct process_reading *items;
    size_t count;
    size_t capacity;
    struct moment moment; /* when the scan began */
    /* Set by the owner: how command lines are redacted; NULL: they are not. */
    const struct redaction *redaction;
};
