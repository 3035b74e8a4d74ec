/* The ledger of system calls: in which of them each process and each run has spent its time.
 *
 * There are two kinds of entries. A run is counted where every call is: then sums come in, of the
 * living at every tick and of the dead with their end, and nothing is guessed. The others are
 * sampled: at every tick a look at each thread tells the call that it is in, which then stands for
 * the time since the last look. A thread that is on no CPU is in its call for certain. One that is
 * on a CPU may have come back already: it stands for that part of the time that the thread has
 * spent in the kernel, of all that it has had of the CPU.
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

/* Zero-initialised is empty. */
struct call_ledger {
    struct map processes; /* pid → struct process_calls */
    struct map runs;      /* by the run's address → struct run_calls */
    unsigned generation;
    struct moment now;   /* of this look */
    uint64_t since_ns;   /* that it stands for, at most */
    uint64_t lost_calls; /* that whoever counts has told of */
};

void call_ledger_done(struct call_ledger *ledger);

/* One tick: begin, then samples and sums of all members that live, end. `interval_ns` is how often
 * there are ticks. */
void call_ledger_begin(struct call_ledger *ledger, const struct moment *now, uint64_t interval_ns);
/* One of its threads, as it was found. 0 or -ENOMEM. */
int call_ledger_sample(struct call_ledger *ledger, const struct member *member,
                       const struct thread_call *call);
/* What it has called in all: one call. 0 or -ENOMEM. */
int call_ledger_sum(struct call_ledger *ledger, const struct member *member,
                    const struct syscall_sum *sum);
/* How many calls were lost, of whomever: then nothing that is counted is whole any more. */
void call_ledger_end(struct call_ledger *ledger, uint64_t lost_calls);

/* A member has ended, with all that it has called (NULL: nobody knows). 0 or -ENOMEM. */
int call_ledger_ended(struct call_ledger *ledger, const struct member *member,
                      const struct syscall_profile *calls);

/* From now on the run is counted; `is_whole`: from its very beginning. 0 or -ENOMEM. */
int call_ledger_count(struct call_ledger *ledger, const struct run *run, bool is_whole);
/* The run itself; or it, or one that it was started in. */
bool call_ledger_counts(const struct call_ledger *ledger, const struct run *run);
bool call_ledger_counts_any(const struct call_ledger *ledger, const struct run *run);
/* Whether it is, or one that it was started in, and is not counted itself: then it is sampled. */
bool call_ledger_samples_any(const struct call_ledger *ledger, const struct run *run);
/* The run is over, and nothing of it is remembered. */
void call_ledger_end_run(struct call_ledger *ledger, const struct run *run);
size_t call_ledger_counted_runs(const struct call_ledger *ledger);

/* What is known of one process, in a row of a snapshot. Lists are placed in `arena`. 0 or -ENOMEM.
 */
int call_ledger_fill_process(const struct call_ledger *ledger, struct arena *arena,
                             struct process_metric *metric);

/* What is known of a run. */
int call_ledger_fill_run(const struct call_ledger *ledger, const struct run *run,
                         struct arena *arena, struct run_syscalls *ret);
