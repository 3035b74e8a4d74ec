/* The ledger: what each run has used, including children that lived only between two readings.
 *
 * The CPU time of a run is the sum over its ended and its live processes, and never decreases. When
 * a parent reaps a child, the kernel adds the child's time to that of the parent, and so on up to
 * sonde, whose own wait4 returns exact figures. So the time of a process that vanishes is not lost:
 * it appears in the `reaped` time of its parent. The ledger checks this: it keeps the last known
 * time of a vanished process as a debit of its parent, until the parent's reaped time has grown by
 * as much. If it never does (the parent ignores SIGCHLD, and the kernel discards the figures), the
 * debit stays in the sum, and the CPU time of the run is a lower bound.
 *
 * If the kernel collector reports every exit with the exact time of the process (ledger_ended()),
 * the sum is simpler: the exact times of ended processes plus those of live ones. Reaped time then
 * does not count, except what a process had reaped before these reports began.
 *
 * Memory: the largest process (peak RSS), the largest sum, and the largest sum with shared pages
 * counted once, which is an interval: see ledger-memory.c.
 *
 * Runs within runs: a process counts for the node that it belongs to and for every node around that
 * one (struct run_node): the runs that its run was started in. If a process of an outer run reaps
 * it, its time moves to that process and counts once there; the inner run keeps its last known
 * time, which is a lower bound.
 *
 * No I/O, no clock: the input are readings, the output are sums. */
#pragma once

#include <stdbool.h>
#include <sys/resource.h>

#include "jobs/registry.h"
#include "model/job.h"
#include "probe/reading.h"

/* What the kernel adds to the account of the parent when it reaps a process: CPU time and I/O. The
 * split of the time is in clock ticks, each rounded down, unless it comes from an ended process:
 * then user_ns and system_ns add up to total_ns. */
struct cpu_and_io {
    uint64_t total_ns;
    uint64_t user_ns;
    uint64_t system_ns;
    uint64_t read_bytes;
    uint64_t write_bytes;
};

struct cpu_and_io cpu_and_io_of(const struct rusage *usage);

/* Sets the CPU time of the profile and its exactness. */
void cpu_and_io_fill_times(const struct cpu_and_io *cpu, bool is_exact,
                           struct job_profile *profile);
/* The same for the I/O. */
void cpu_and_io_fill_io(const struct cpu_and_io *io, bool is_exact, struct job_profile *profile);

/* The usage of a node so far. */
struct run_usage {
    struct cpu_and_io largest;   /* never decreases */
    struct cpu_and_io accounted; /* the present sum: may decrease while figures move from child to
                                  parent; exact when the run is over */
    int64_t peak_rss_bytes;
    int64_t missing_peak_bytes; /* the most that a process can have whose peak is not known; 0: all
                                   are known. Where sonde reaps the processes, wait4() has them */
    int64_t peak_total_bytes;
    int64_t peak_unique_min_bytes; /* with shared pages counted once: at least, */
    int64_t peak_unique_bytes;     /* and at most */
    int64_t peak_processes;
    uint64_t samples;       /* ticks at which it had a process */
    bool cpu_is_incomplete; /* the time of a vanished process is, or may be, missing */
    bool rss_is_incomplete; /* the same for peak RSS */
    bool io_is_incomplete;  /* the kernel has discarded I/O of children */

    /* at the last tick */
    bool io_is_unknown;  /* of a live process */
    bool cpu_is_rounded; /* a live process has reaped others: that time is in whole ticks */
    int64_t rss_bytes;
    int64_t unique_min_bytes;
    int64_t unique_bytes;
    int64_t processes;
};

struct ledger;

/* `own_pid` is sonde's: its children end with ledger_reaped(), never by vanishing. Returns 0 or
 * -ENOMEM. */
int ledger_new(pid_t own_pid, struct ledger **ret);
void ledger_free(struct ledger *ledger);

/* How much memory processes can have. Huge pages are rare and large, so they are not assumed for
 * every page fault but counted for the whole machine. */
struct memory_bounds {
    int64_t total_bytes;  /* the machine's memory */
    uint64_t fault_bytes; /* added by a page fault, unless it makes a huge page */
    uint64_t huge_bytes;  /* all huge pages that the machine has made so far */
    uint64_t at_ticks;    /* since boot: a process that started later made none of these */
};

/* Unless more is known, every fault may add this: a huge page. */
#define FAULT_BYTES_MAX (UINT64_C(2) << 20)

/* Sets the bounds for the next ticks. Call it before the first tick, too, so that earlier huge
 * pages do not count. Without a call, every fault may have made one. `is_full_tick`: the processes
 * of all runs are observed with them, not only those of one. */
void ledger_set_bounds(struct ledger *ledger, const struct memory_bounds *bounds,
                       bool is_full_tick);

/* One tick: begin, observe every member that could be read, end. Returns 0 or -ENOMEM. `root`: only
 * of this node, which has none around it; NULL: of all. */
void ledger_begin(struct ledger *ledger, const struct run_node *root);
int ledger_observe(struct ledger *ledger, const struct run_node *node,
                   const struct process_reading *reading);
/* The same for a zombie whose exit was already counted: it counts only as a process. */
int ledger_observe_ended(struct ledger *ledger, const struct run_node *node);
void ledger_end(struct ledger *ledger);

/* Covers a member: from now on its exit and those of its children are reported with exact figures.
 * `reading` is what it has used and reaped before; NULL: nothing, because it was just forked at
 * `start_ticks` (0: not known). Returns 0 or -ENOMEM. */
int ledger_cover(struct ledger *ledger, const struct run_node *node, pid_t pid,
                 uint64_t start_ticks, const struct process_reading *reading);

/* Drops the members that are not covered but have a covered parent or ancestor: they were reaped
 * before, and their time is part of the reaped time of that process. Call it after all present
 * members were covered, and before the first of them ends. */
void ledger_absorb_gone(struct ledger *ledger);

/* Moves a process to another node, with all its time; or (`from_now`) only with what it uses from
 * now on, while the node that it leaves keeps the rest. Does nothing if it was never observed.
 * Returns 0 or -ENOMEM. */
int ledger_move(struct ledger *ledger, const struct run_node *node, pid_t pid, bool from_now);

/* Adds what ended processes of `from` have used to `node`, which is within it. */
void ledger_move_ended(struct ledger *ledger, const struct run_node *node,
                       const struct run_node *from, const struct ended_usage *usage);

/* Raises the peak RSS of the largest process of a node, and of the nodes around it. */
void ledger_raise_peak(struct ledger *ledger, const struct run_node *node, int64_t peak_rss_bytes);

/* Notes that a process of `node` has ended without a report of its usage. The figures of the nodes
 * that `parent`, to which its time moves, is not in, become lower bounds; NULL: of all. */
void ledger_miss_end(struct ledger *ledger, const struct run_node *node,
                     const struct run_node *parent);
/* The same for a peak that is not known, and not larger than `most_bytes` and that of `parent`. */
void ledger_miss_peak(struct ledger *ledger, const struct run_node *node,
                      const struct run_node *parent, int64_t most_bytes);

/* Makes the figures of all runs lower bounds, because reports of exits were lost and their runs are
 * unknown. */
void ledger_mark_incomplete(struct ledger *ledger);

/* The exit of a covered member is being reported: it does not count as lost at this tick, although
 * the process may be gone. */
void ledger_await_end(struct ledger *ledger, pid_t pid);

/* The exit of a covered member. */
struct process_end {
    pid_t pid;
    int64_t cpu_ns; /* without children; INT_UNKNOWN: use the last reading */
    int64_t user_ns;
    int64_t peak_rss_bytes;
    int64_t read_bytes; /* known if cpu_ns is */
    int64_t write_bytes;
};

/* Adds the exit of a member; it counts from the next ledger_end() on. Returns 0 or -ENOMEM. */
int ledger_ended(struct ledger *ledger, const struct run_node *node, const struct process_end *end);

/* Returns whether the peak RSS of the node is complete, if its processes are covered. */
static inline bool run_usage_has_peak(const struct run_usage *usage)
{
    return !usage->rss_is_incomplete &&
           (!usage->missing_peak_bytes || usage->missing_peak_bytes <= usage->peak_rss_bytes);
}

/* Returns whether the I/O of the node is complete, if its CPU time is. */
static inline bool run_usage_has_io(const struct run_usage *usage)
{
    return !usage->cpu_is_incomplete && !usage->io_is_incomplete && !usage->io_is_unknown;
}

/* Adds the exact figures of a member that sonde itself has reaped; `usage` includes all children
 * that the member had reaped. They count from the next ledger_end() on. Returns 0 or -ENOMEM. */
int ledger_reaped(struct ledger *ledger, const struct run_node *node, pid_t pid,
                  const struct rusage *usage);

/* Call it before the node gets `outer` around it, which must be within its present outer node, if
 * it has one. The new outer nodes get its peaks; if some of its processes have ended, the CPU time
 * of these nodes is a lower bound. Returns 0 or -ENOMEM. */
int ledger_set_outer(struct ledger *ledger, const struct run_node *node,
                     const struct run_node *outer);

/* Freezes the usage of a step: from now on its processes count only for the nodes around it. Call
 * it after a tick, before registry_end_sheet(). If the step is started again, its usage grows
 * further.
 */
void ledger_end_step(struct ledger *ledger, const struct run_node *node);

/* The memory of the processes of a node by their page tables: the sum of each page, divided by the
 * number of processes that map it. */
struct measured_memory {
    int64_t total_bytes;
    int64_t anon_bytes; /* the part that is neither files nor shared memory */
};

/* Leaves it to the caller to measure the memory of this node: its upper peak rises only by
 * ledger_measured(). */
void ledger_expect_measures(struct ledger *ledger, const struct run_node *node);
/* Returns whether the node may have had more memory at the last tick than at any measured one.
 * `ret_growth` changes whenever a process has a page fault. */
bool ledger_may_have_peak(const struct ledger *ledger, const struct run_node *node,
                          uint64_t *ret_growth);
/* Narrows the interval of the last tick. NULL: it could not be measured. */
void ledger_measured(struct ledger *ledger, const struct run_node *node,
                     const struct measured_memory *measured);

/* Returns the upper end of the memory of all runs together, as of the last tick. Files that runs
 * share count in each of them. */
int64_t ledger_unique_bytes(const struct ledger *ledger);

/* Drops all data of a node that is over. The node around it keeps its share. */
void ledger_end_node(struct ledger *ledger, const struct run_node *node);

/* Returns the usage of a node, including all nodes in it; NULL if nothing was ever observed of
 * them. Valid until the node ends. */
const struct run_usage *ledger_find(const struct ledger *ledger, const struct run_node *node);
