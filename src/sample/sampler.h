/* The sampling core: turns readings into a finished snapshot.
 *
 * It keeps the last reading of each process for rates, gets the run of each process from the
 * registry, and keeps the ledger of runs. Rates use the monotonic clock and the identity of the
 * process, so they are correct for exits, new processes, reused pids and a clock that was set. No
 * I/O, no clock, no threads. */
#pragma once

#include "jobs/registry.h"
#include "model/gap.h"
#include "model/snapshot.h"
#include "probe/reading.h"
#include "probe/system.h"
#include "sample/ledger.h"

struct sampler;

struct sampler_options {
    pid_t own_pid;             /* sonde's */
    uint64_t ticks_per_sec;    /* of process start times; 0: the system's */
    struct registry *registry; /* owned by the caller; NULL: no jobs */
};

/* Returns 0 or -ENOMEM. */
int sampler_new(const struct sampler_options *options, struct sampler **ret);
void sampler_free(struct sampler *sampler);
void sampler_freep(struct sampler **sampler);

struct sampler_input {
    const struct readings *readings;
    const struct system_reading *system; /* NULL: the machine's figures are unknown */
    size_t process_total;
};

/* Makes a snapshot of all processes that were read, which the caller frees; see scope.h for the
 * part that is kept. The readings must contain every readable member of a run: the registry drops
 * the others. Runs, their progress and their active steps come from the registry, with or without
 * processes. Returns 0 or -ENOMEM. */
int sampler_take(struct sampler *sampler, const struct sampler_input *input, struct snapshot **ret);

/* The following functions forward to the ledger: see ledger.h. */
int sampler_reaped(struct sampler *sampler, const struct run_node *node, pid_t pid,
                   const struct rusage *usage);

int sampler_cover(struct sampler *sampler, const struct run_node *node, pid_t pid,
                  uint64_t start_ticks, const struct process_reading *reading);
int sampler_ended(struct sampler *sampler, const struct run_node *node,
                  const struct process_end *end);
void sampler_absorb_gone(struct sampler *sampler);
void sampler_await_end(struct sampler *sampler, pid_t pid);
void sampler_mark_incomplete(struct sampler *sampler);
void sampler_miss_end(struct sampler *sampler, const struct run_node *node,
                      const struct run_node *parent);
void sampler_miss_peak(struct sampler *sampler, const struct run_node *node,
                       const struct run_node *parent, int64_t most_bytes);
void sampler_raise_peak(struct sampler *sampler, const struct run_node *node,
                        int64_t peak_rss_bytes);

/* Call it before registry_set_parent(). */
int sampler_set_outer(struct sampler *sampler, const struct run_node *node,
                      const struct run_node *outer);

/* Adds a reading of all members within `root`, which has no node around it, to the ledger, and
 * makes no snapshot. Returns 0 or -ENOMEM. */
int sampler_observe(struct sampler *sampler, const struct readings *readings,
                    const struct run_node *root);
int sampler_move(struct sampler *sampler, const struct run_node *node, pid_t pid, bool from_now);
void sampler_move_ended(struct sampler *sampler, const struct run_node *node,
                        const struct run_node *from, const struct ended_usage *usage);
void sampler_end_step(struct sampler *sampler, const struct run_node *node);
void sampler_forget_step(struct sampler *sampler, const struct run_node *node);
/* Measures the memory of `node` at new peaks from now on: see memory-reader.h. */
void sampler_expect_measures(struct sampler *sampler, const struct run_node *node);
void sampler_measure(struct sampler *sampler, int proc_fd);
void sampler_set_bounds(struct sampler *sampler, const struct memory_bounds *bounds,
                        bool is_full_tick);

/* Returns the usage of a node as of the last snapshot; NULL if nothing was ever observed of it. */
const struct run_usage *sampler_usage(const struct sampler *sampler, const struct run_node *node);

/* Drops all data of a run that is over. Call it before registry_end_run(). */
void sampler_end_run(struct sampler *sampler, const struct run *run);
