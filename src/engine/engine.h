/* The collection loop, for `sonde run` and the daemon alike.
 *
 * Takes a snapshot at once and then at every tick of an absolute schedule, and hands it on, with
 * what has happened to the processes of runs since the last one. A step that fails is counted and
 * harms no other; after a failed collection the next tick is skipped. Missed ticks, suspends, clock
 * steps and lost events are reported as gaps. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <uv.h>

#include "engine/tick-box.h"
#include "jobs/registry.h"
#include "probe/connector.h"
#include "sample/collector.h"

struct engine;

struct engine_options {
    uint64_t interval_ns;
    enum scope scope;
    bool only_jobs;              /* read the processes of runs only, and sonde itself */
    struct registry *registry;   /* not the engine's */
    struct connector *connector; /* the engine's from then on; NULL: there is none */

    /* A process that sonde has started itself, a member already, and when: its spawn is told even
     * where the kernel tells of none, and samples are due from then on. 0: none. */
    pid_t spawned_pid;
    struct moment spawned_at;

    /* The box is the receiver's. One that has got too full for more events comes before its time,
     * and without a snapshot. */
    bool wants_events;
    void (*on_tick)(void *context, struct tick_box *box);
    void *context;
};

/* What went on so far, for those who ask how far to trust it. */
struct engine_counts {
    uint64_t collected;
    uint64_t failed; /* collections */
    uint64_t missed_ticks;
    uint64_t event_losses; /* times that lifecycle events were lost */
};

/* Takes the first snapshot before it returns. 0 or a negative errno. */
int engine_start(uv_loop_t *loop, const struct engine_options *options, struct engine **ret);
void engine_close(struct engine *engine);

/* A snapshot out of turn; the schedule stays. 0 or a negative errno. */
int engine_collect(struct engine *engine);
/* Hands on what has happened since the last one, without a snapshot. */
void engine_flush(struct engine *engine);

/* sonde has reaped a process: if it was a member of a run, its figures are entered, and its end is
 * told if the kernel has not. */
void engine_reaped(struct engine *engine, pid_t pid, int wait_status, const struct rusage *usage);

/* A signal is on its way to a member: `sent` says which, and whose. */
void engine_signalled(struct engine *engine, pid_t pid, const struct process_event *sent);

const struct run_usage *engine_usage(const struct engine *engine, const struct run *run);
const struct engine_counts *engine_counts(const struct engine *engine);

/* Whether every process of every run was told of by the kernel, none merely found. */
bool engine_saw_every_process(const struct engine *engine);
