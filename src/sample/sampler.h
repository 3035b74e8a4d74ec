/* The profiler's heart, without a loop: readings come in, a finished snapshot goes out.
 *
 * Keeps the last reading of each process to make rates, asks the registry whose each process is,
 * keeps the ledger of runs. Rates use the monotonic clock and the process's identity: right for
 * exits, new processes, a pid that changed hands, a clock that was set. No I/O, no clock of its
 * own, no threads: libsonde stands on it too. */
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
    struct registry *registry; /* not the sampler's; NULL: no jobs */
};

int sampler_new(const struct sampler_options *options, struct sampler **ret);
void sampler_free(struct sampler *sampler);
void sampler_freep(struct sampler **sampler);

struct sampler_input {
    const struct readings *readings;
    const struct system_reading *system; /* NULL: the machine's figures are unknown */
    size_t process_total;
};

/* A snapshot of all processes that were read; see scope.h for what is kept of them. The readings
 * must hold every member of a run that can be read: the registry drops the others. Runs, their
 * progress and their active steps are those of the registry, with or without processes. 0 or
 * -ENOMEM. */
int sampler_take(struct sampler *sampler, const struct sampler_input *input, struct snapshot **ret);

/* A member that sonde itself has reaped. 0 or -ENOMEM. */
int sampler_reaped(struct sampler *sampler, struct run *run, pid_t pid, const struct rusage *usage);

/* The end of a member will be told from now on: `reading` is how it stands; NULL: it was just born.
 * And it was; or some were lost. See ledger.h. 0 or -ENOMEM. */
int sampler_cover(struct sampler *sampler, struct run *run, pid_t pid, uint64_t start_ticks,
                  const struct process_reading *reading);
int sampler_ended(struct sampler *sampler, struct run *run, const struct process_end *end);
void sampler_absorb_gone(struct sampler *sampler);
void sampler_distrust(struct sampler *sampler);
void sampler_note_peak(struct sampler *sampler, struct run *run, int64_t peak_rss_bytes);

/* Before registry_set_parent(). See ledger.h. 0 or -ENOMEM. */
int sampler_set_parent(struct sampler *sampler, const struct run *run, const struct run *parent);

/* What a run has used, as of the last snapshot; NULL if nothing was ever seen of it. */
const struct run_usage *sampler_usage(const struct sampler *sampler, const struct run *run);

/* The run is over: nothing of it is remembered. Before registry_end_run(). */
void sampler_end_run(struct sampler *sampler, const struct run *run);
