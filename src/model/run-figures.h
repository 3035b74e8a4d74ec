/* The figures of a run, one line each, in the order in which they are shown. This is the only list
 * of them: the structs and field tables of job.h, and so JSON, RPC, SQLite, reports and documents,
 * derive from it. Included where FIGURE() is defined, so without `#pragma once`:
 *
 *   FIGURE(kind, name, mark, fields of struct field)
 *
 * kind: REAL, INT, TEXT, ENUM or TALLY. mark: MARKED has an exactness of its own, of the same name,
 * UNMARKED has none. */

/* clang-format off */
/* The smallest differences that matter: 1 MB, one tick of the CPU clock, one process. */
FIGURE(REAL, peak_rss_mb, MARKED, IN_MB, REPORTED, LIVE, .label = LARGEST_PROCESS,
       .min_difference = 1, .meaning = "peak RSS of the largest process")
FIGURE(REAL, peak_total_mb, MARKED, IN_MB, REPORTED, LIVE, .label = ALL_PROCESSES,
       .meaning = "largest sum of the RSS of all processes; shared pages count in each")
FIGURE(REAL, peak_unique_min_mb, MARKED, IN_MB, REPORTED, LIVE, .label = TOGETHER ", at least",
       .meaning = "memory of all processes with shared pages counted once: lower end")
FIGURE(REAL, peak_unique_mb, MARKED, IN_MB, REPORTED, LIVE, .label = TOGETHER, .min_difference = 1,
       .meaning = "memory of all processes with shared pages counted once: upper end")
FIGURE(REAL, cpu_seconds, MARKED, IN_SECONDS, REPORTED, LIVE, .label = "CPU",
       .min_difference = 0.01, .alias = "total_cpu_seconds", .meaning = "CPU time of all processes")
FIGURE(REAL, user_seconds, MARKED, IN_SECONDS, REPORTED, .label = "user",
       .meaning = "CPU time in user mode")
FIGURE(REAL, system_seconds, MARKED, IN_SECONDS, REPORTED, .label = "system",
       .meaning = "CPU time in the kernel")
FIGURE(REAL, max_cpu_pct, UNMARKED, .unit = UNIT_PERCENT, .resolution = 0.01, REPORTED, LIVE,
       .label = "peak CPU", .meaning = "highest CPU use in one interval")
FIGURE(REAL, wall_seconds, UNMARKED, IN_SECONDS, REPORTED, .label = "wall", .min_difference = 0.01,
       .meaning = "wall time")
FIGURE(INT, processes, MARKED, A_COUNT, REPORTED, LIVE, .label = "processes", .min_difference = 1,
       .alias = "process_spawn_count", .meaning = "number of processes started")
FIGURE(INT, peak_processes, MARKED, A_COUNT, REPORTED, LIVE, .label = "at one time",
       .meaning = "largest number of processes at one time, with zombies")
FIGURE(INT, unique_pid_count, UNMARKED, A_COUNT, LIVE, .exactness = "processes",
       .meaning = "number of process ids that were seen")
FIGURE(INT, exit_count, UNMARKED, A_COUNT, LIVE, .meaning = "processes that ended")
FIGURE(INT, failed_exit_count, UNMARKED, A_COUNT, REPORTED, LIVE, .label = "failed",
       .exactness = "processes", .meaning = "processes that exited with a nonzero status")
FIGURE(INT, kill_count, UNMARKED, A_COUNT, REPORTED, LIVE, .label = "killed",
       .exactness = "processes", .meaning = "processes killed by a signal")
FIGURE(INT, oom_count, UNMARKED, A_COUNT, LIVE, .label = "OOM kills",
       .meaning = "processes killed by the kernel because memory ran out")
FIGURE(INT, signal_count, UNMARKED, A_COUNT, LIVE, .label = "signals",
       .meaning = "signals that ended no process")
FIGURE(INT, zombie_count, UNMARKED, A_COUNT, LIVE, .label = "zombies",
       .meaning = "largest number of processes at one time that were zombies in two consecutive "
                  "samples")
FIGURE(INT, left_running_count, UNMARKED, A_COUNT, REPORTED, .alias = "left_running",
       .meaning = "number of processes that outlived the command")
FIGURE(INT, read_bytes, MARKED, .unit = UNIT_BYTES, REPORTED, LIVE, .label = "read", .is_low = true,
       .min_difference = BYTES_PER_MB, .meaning = "bytes read from storage")
FIGURE(INT, write_bytes, MARKED, .unit = UNIT_BYTES, REPORTED, LIVE, .label = "written",
       .is_low = true, .min_difference = BYTES_PER_MB, .meaning = "bytes written to storage")
FIGURE(REAL, gap_seconds, UNMARKED, .unit = UNIT_SECONDS, .resolution = 0.001, REPORTED,
       .label = "gaps", .meaning = "time within the run that no sample covers: stops, suspends")
FIGURE(INT, num_samples, UNMARKED, A_COUNT, REPORTED, LIVE, .label = "samples",
       .meaning = "number of samples")
FIGURE(TEXT, collector, UNMARKED, REPORTED, .meaning = "collector: bpf or procfs")
/* The exactness of the hotspots applies to the other figures of system calls, too. */
FIGURE(TALLY, syscall_hotspots, MARKED, .unit = UNIT_PERCENT, .resolution = 0.01, REPORTED,
       .meaning = "shares of the time in system calls, by name, including calls that only wait, "
                  "which text output omits")
FIGURE(TALLY, syscall_counts, UNMARKED, A_COUNT, REPORTED,
       .meaning = "number of system calls, by name")
FIGURE(TALLY, syscall_seconds, UNMARKED, IN_SECONDS, REPORTED,
       .meaning = "wall time in system calls, summed over all threads, by name")
FIGURE(TALLY, syscall_errors, UNMARKED, A_COUNT, REPORTED,
       .meaning = "number of failed system calls, by name")
/* enum syscall_source; time shares of different sources are not comparable */
FIGURE(ENUM, syscall_source, UNMARKED, .names = syscall_source_names,
       .name_count = SYSCALL_SOURCE_COUNT, REPORTED, .meaning = "source of the system call figures")
/* clang-format on */

#undef FIGURE
