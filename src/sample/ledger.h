/* The ledger: what each run has used, children that came and went included.
 *
 * CPU time of a run = what its ended processes used + what the living ones have used, and it never
 * falls. The kernel adds a child's time to its parent's account when the parent reaps it, and so on
 * up to sonde, whose own wait4 gives exact figures. So a process that vanishes is no loss: its time
 * turns up as `reaped` of its parent. The ledger checks that it does. What a vanished process was
 * last seen with is held as a debit of its parent until the parent's reaped time has risen by as
 * much; if it never does (the parent ignores SIGCHLD, and the kernel throws the figures away), the
 * debit stays in the sum, and the run's CPU time is a lower bound.
 *
 * Where the kernel tells of every end with what the process itself has used (ledger_ended()), it is
 * simpler: a run has used what its ended processes used and what the living ones have. Then what a
 * process reaps is not counted again, but for what it had reaped before such events began.
 *
 * Memory: the largest process (high-water mark), the largest sum, the largest unique sum.
 *
 * Runs within runs: a process counts for the run that owns it and for every run that this one was
 * started in. When it is reaped by a process of an outer run, the kernel's account of that process
 * takes its time over, where it is counted once; the inner run keeps what was last seen of it,
 * which is a lower bound.
 *
 * No I/O, no clock: readings come in, sums go out. */
#pragma once

#include <stdbool.h>
#include <sys/resource.h>

#include "jobs/registry.h"
#include "probe/reading.h"

struct cpu_time {
    uint64_t total_ns;
    uint64_t user_ns;
};

struct cpu_time cpu_time_of(const struct rusage *usage);

/* What a run has used so far. */
struct run_usage {
    struct cpu_time cpu;       /* never falls */
    struct cpu_time accounted; /* as the accounts stand: dips while figures pass from child to
                                  parent; exact once the run is over */
    int64_t peak_rss_bytes;
    int64_t peak_total_bytes;
    int64_t peak_unique_bytes;
    uint64_t samples;       /* ticks at which it had a process to look at */
    bool cpu_is_incomplete; /* a process vanished and nobody accounts for it, or might have */
    bool rss_is_incomplete; /* the same for the high-water mark */

    /* at the last tick */
    bool cpu_is_rounded; /* a living process has reaped others: that is shown in ticks, cut off */
    int64_t rss_bytes;
    int64_t unique_bytes;
    int64_t processes;
};

struct ledger;

/* `own_pid` is sonde's: its children end by ledger_reaped(), never by vanishing. */
int ledger_new(pid_t own_pid, struct ledger **ret);
void ledger_free(struct ledger *ledger);

/* One tick: begin, observe every member that could be read, end. 0 or -ENOMEM. */
void ledger_begin(struct ledger *ledger);
int ledger_observe(struct ledger *ledger, struct run *run, const struct process_reading *reading);
/* The same for a zombie whose end has been counted: it is part of the snapshot, and adds nothing
 * else. */
int ledger_observe_ended(struct ledger *ledger, struct run *run);
void ledger_end(struct ledger *ledger);

/* From now on the end of this member will be told, and those of its children. `reading` is what it
 * has used and reaped before; NULL: nothing, it was born then (0: not known when). 0 or -ENOMEM. */
int ledger_cover(struct ledger *ledger, struct run *run, pid_t pid, uint64_t start_ticks,
                 const struct process_reading *reading);

/* After all that are there were covered, and before the first of them ends: those that are not
 * covered have been reaped before, and are part of what their parents had reaped by then. */
void ledger_absorb_gone(struct ledger *ledger);

/* What the kernel says of the largest process of a run, from elsewhere. */
void ledger_note_peak(struct ledger *ledger, struct run *run, int64_t peak_rss_bytes);

/* Ends that should have been told were lost: nobody knows of which runs. */
void ledger_distrust(struct ledger *ledger);

/* How a member that was covered has ended. */
struct process_end {
    pid_t pid;
    int64_t cpu_ns; /* of its own; INT_UNKNOWN: what was last seen has to do */
    int64_t user_ns;
    int64_t peak_rss_bytes;
};

/* It counts from the next ledger_end() on. 0 or -ENOMEM. */
int ledger_ended(struct ledger *ledger, struct run *run, const struct process_end *end);

/* sonde itself reaped this member: its own figures and those of all that it had reaped, exact.
 * They count from the next ledger_end() on. 0 or -ENOMEM. */
int ledger_reaped(struct ledger *ledger, struct run *run, pid_t pid, const struct rusage *usage);

/* Before the run gets `parent`, which is within the parent that it has, if it has one: runs that it
 * is new to get its peaks, and if some of its processes are over, their CPU time is a lower bound.
 * 0 or -ENOMEM. */
int ledger_set_parent(struct ledger *ledger, const struct run *run, const struct run *parent);

/* The run is over, and nothing of it is remembered. The run that it was started in keeps what it
 * had of it. */
void ledger_end_run(struct ledger *ledger, const struct run *run);

/* Of a run and of all runs that were started in it. Valid until the next call; NULL if nothing was
 * ever observed of them. */
const struct run_usage *ledger_find(const struct ledger *ledger, const struct run *run);
