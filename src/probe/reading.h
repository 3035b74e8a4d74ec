/* Raw readings: what a collector hands to `sample`. No rates, no jobs, nothing derived.
 *
 * Unknown values are INT_UNKNOWN. Each process carries the moment at which its CPU time was read,
 * because a scan over thousands of processes takes long enough to spoil a rate. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"

struct process_reading {
    pid_t pid;
    pid_t ppid;
    uint64_t start_ticks; /* with the pid, the process's identity */
    uint64_t mono_ns;     /* when cpu_ns was read */
    char state;
    int64_t threads;
    int64_t uid;

    int64_t cpu_ns;  /* all threads, ended ones included; children not */
    int64_t user_ns; /* by the kernel's ticks, for the split only */
    int64_t system_ns;
    int64_t reaped_user_ns; /* of the children it has reaped, and theirs; by ticks */
    int64_t reaped_system_ns;

    int64_t vsize_bytes;
    int64_t rss_bytes;
    int64_t shared_bytes;
    int64_t open_fds;

    /* costed extras, read where they are asked for */
    int64_t peak_rss_bytes;
    int64_t fd_limit;
    int64_t read_bytes;
    int64_t write_bytes;
    bool ignores_sigchld;
    bool is_ending; /* as the kernel collector sees it: on its way out, or a zombie */
    uint32_t tag;   /* of the run that the kernel takes it for a member of; 0: none, or not known */

    const char *command; /* the collector's, valid until its next reading */
};

struct readings {
    struct process_reading *items;
    size_t count;
    size_t capacity;
    struct moment moment; /* when the scan began */
};
