/* ProcessMetric: one process at one instant (SPEC "Data model"). */
#pragma once

#include "model/field.h"

/* Command lines are truncated here, on a character boundary. */
#define COMMAND_MAX_BYTES 500

enum syscall_source {
    SYSCALLS_UNKNOWN,
    SYSCALLS_SAMPLED,
    SYSCALLS_BPF,
    SYSCALLS_STRACE,
    SYSCALL_SOURCE_COUNT,
};

extern const char *const syscall_source_names[SYSCALL_SOURCE_COUNT];

struct process_metric {
    int64_t pid;
    int64_t ppid;
    const char *command;
    char state;
    double cpu_percent;
    double rss_mb;
    double vms_mb;
    int64_t threads;
    int64_t open_fds;
    double age_seconds;
    const char *job_id;
    int64_t sheet_num;
    struct tally_list syscall_counts;
    struct tally_list syscall_time_pct;
    const char *run_id;
    double start_time;
    int64_t uid;
    double cpu_seconds;
    double shared_mb;
    double peak_rss_mb;
    int64_t fd_limit;
    int64_t read_bytes;
    int64_t write_bytes;
    double gpu_memory_mb;
    int syscall_source; /* enum syscall_source */

    /* With the pid, the identity of the process; start_time is derived from it. Not a field,
     * because it has no meaning without the boot id, which a session stores once. */
    uint64_t start_ticks;
};

extern const struct record process_metric_record;

/* Longer program names are truncated. */
#define PROGRAM_MAX_BYTES 128

/* Writes the program of a command line without its directory: "python3" for "/usr/bin/python3
 * train.py", "true" for "[true]" (a process without a command line), "kworker" for
 * "[kworker/0:1-events]" (one name for all kernel threads of a kind). Returns false if there is
 * none. */
bool command_program(const char *command, char into[static PROGRAM_MAX_BYTES + 1]);
