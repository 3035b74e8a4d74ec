/* The ledger of system calls: in which calls each process and each run has spent its time.
 *
 * A run is either counted or sampled. For a counted run the kernel counts every call: the input are
 * sums, of live processes at every tick and of ended ones with their exit, and nothing is
 * estimated. For a sampled run each tick samples the call that each thread is in, and the sample
 * represents the time since the last one. A thread on no CPU is certainly in its call. A thread on
 * a CPU may have returned already: its sample represents only the share of system time in the
 * thread's CPU time.
 *
 * A process counts for the run that owns it and for every run that this one was started in. No I/O,
 * no clock. */
#pragma once

#include "base/clock.h"
#include "base/map.h"
#include "jobs/registry.h"
#include "model/job.h"
#include "model/process.h"
#include "model/syscall-profile.h"
#include "probe/thread-call.h"

/* A zero-initialised ledger is empty and valid. */
struct call_ledger {
    struct map processes; /* pid → struct process_calls */
    struct map runs;      /* by the run's address → struct run_calls */
    unsigned generation;
    struct moment now;   /* of this tick */
    uint64_t since_ns;   /* the longest time that a sample represents */
    uint64_t lost_calls; /* lost by the kernel so far, as of the last tick */
};

void call_ledger_done(struct call_ledger *ledger);

/* One tick: begin, then samples and sums of all live members, then end. `interval_ns` is the time
 * between ticks. */
void call_ledger_begin(struct call_ledger *ledger, const struct moment *now, uint64_t interval_ns);
/* Adds the sample of one thread. Returns 0 or -ENOMEM. */
int call_ledger_add_sample(struct call_ledger *ledger, const struct member *member,
                           const struct thread_call *call);
/* Adds the total of one call of a member, as the kernel has counted it so far. Returns 0 or
 * -ENOMEM.
 */
int call_ledger_add_sum(struct call_ledger *ledger, const struct member *member,
                        const struct syscall_sum *sum);
/* `lost_calls` is the number of calls lost so far, of any process: if it has grown, all counts are
 * lower bounds. */
void call_ledger_end(struct call_ledger *ledger, uint64_t lost_calls);

/* A member has ended, with the given calls (NULL: unknown). Returns 0 or -ENOMEM. */
int call_ledger_ended(struct call_ledger *ledger, const struct member *member,
                      const struct syscall_profile *calls);

/* Makes the run a counted one; `is_from_start`: the kernel has counted it since its first call.
 * Returns 0 or -ENOMEM. */
int call_ledger_start_counting(struct call_ledger *ledger, const struct run *run,
                               bool is_from_start);
/* Return whether the run itself is counted; and whether it, or a run that it was started in, is. */
bool call_ledger_is_counted(const struct call_ledger *ledger, const struct run *run);
bool call_ledger_is_any_counted(const struct call_ledger *ledger, const struct run *run);
/* Returns whether the run, or one that it was started in, is not counted and therefore needs
 * samples. */
bool call_ledger_needs_samples(const struct call_ledger *ledger, const struct run *run);
/* Drops all data of a run that is over, including that of its remaining processes. */
void call_ledger_end_run(struct call_ledger *ledger, const struct run *run);
/* Returns the number of counted runs. */
size_t call_ledger_counted_runs(const struct call_ledger *ledger);

/* Fills the system call fields of a process. Lists are allocated in `arena`. Returns 0 or -ENOMEM.
 */
int call_ledger_fill_process(const struct call_ledger *ledger, struct arena *arena,
                             struct process_metric *metric);

/* Fills the system call fields of a run. Returns 0 or -ENOMEM. */
int call_ledger_fill_run(const struct call_ledger *ledger, const struct run *run,
                         struct arena *arena, struct run_syscalls *ret);
