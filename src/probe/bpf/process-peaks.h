/* The peak memory of processes, without the memory of their parents.
 *
 * The kernel keeps one peak for all programs of a process. It contains the memory that a child
 * shares with its parent until its exec (vfork, posix_spawn), so that only a larger peak is the
 * process's own. A smaller one is not known. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/map.h"

struct process_peaks {
    struct map foreign; /* pid → what may be the peak of another process */
};

struct known_peak {
    int64_t bytes;         /* INT_UNKNOWN: not known */
    int64_t missing_bytes; /* the most that the peak of a program can be that is not known; 0: all
                              are known */
};

void process_peaks_done(struct process_peaks *peaks);

/* A fork was reported. Without memory, the peak before an exec is not used. */
void process_peaks_forked(struct process_peaks *peaks, pid_t pid, bool shares_memory);
/* The same for a child of sonde: what sonde had in memory is not the command's. */
void process_peaks_forked_by_sonde(struct process_peaks *peaks, pid_t pid);

/* Return the peak of the programs before an exec, and of all programs at the exit. `former_pages`
 * is what the kernel has kept so far; `peak_pages` is the peak of the last program, or negative:
 * `former_pages` contains it. */
struct known_peak process_peaks_before_exec(struct process_peaks *peaks, pid_t pid,
                                            uint64_t former_pages);
struct known_peak process_peaks_at_exit(struct process_peaks *peaks, pid_t pid,
                                        uint64_t former_pages, int64_t peak_pages);
