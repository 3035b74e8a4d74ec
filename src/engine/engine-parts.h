/* The engine's state, for the files engine*.c alone. */
#pragma once

#include "base/vec.h"
#include "detect/rate-limit.h"
#include "engine/engine.h"
#include "engine/kernel-account.h"
#include "engine/lifecycle-feed.h"
#include "engine/rule-runs.h"
#include "engine/syscall-account.h"
#include "engine/tick-builder.h"
#include "engine/unseen-events.h"

struct engine {
    struct engine_options options;
    struct engine_settings settings;
    uv_loop_t *loop;
    pid_t own_pid;
    int proc_fd;
    struct collector *collector;
    struct kernel_account kernel;
    struct syscall_account syscalls;
    struct lifecycle_feed *feed;
    struct detector *detector;
    struct rule_runs rules;
    struct helpers *helpers;
    struct gpu_watch *gpus;
    struct tracing *tracing;
    struct ticker *ticker;
    uv_timer_t flush;
    uv_timer_t early; /* a snapshot that does not wait for its tick */
    int open_handles;
    struct tick_builder builder;
    struct unseen_events unseen;
    struct VEC(pid_t) pids;
    struct moment last;
    int64_t snapshot_id;
    struct pressure_input pressure; /* as of the last snapshot */
    double memory_total_mb;
    struct rate_limits rate_limits;
    bool skip_next_tick;
    bool is_reading;   /* a snapshot is being taken */
    bool is_resyncing; /* events were lost: members are looked for */
    bool must_look;    /* … once, because nobody has told of them until now */
    bool is_failing;
    bool has_lost_events;
    bool has_new_kill;        /* an OOM kill since the last snapshot */
    uint64_t unreported_ends; /* of processes that are gone; not yet noted as a gap */
    struct engine_counts counts;
};

/* ---- engine-events.c: what is told between snapshots, and by whom ---- */

/* What has been told so far is taken in. */
void engine_drain(struct engine *engine);
/* Hands over the complete boxes. The events in the current one follow soon, if no snapshot comes
 * before. */
void engine_plan_flush(struct engine *engine);
/* A snapshot soon, if the interval is long and it is still needed then. */
void engine_plan_early(struct engine *engine);
/* Hands over the complete boxes. */
void engine_hand_over(struct engine *engine);
/* Counts members that are not covered yet as they stand: from now on the kernel reports their ends.
 * Those of runs that are not calm are left for the next time. */
void engine_cover_members(struct engine *engine);
/* The connector is the engine's, or closed. */
void engine_start_connector(struct engine *engine, struct connector *connector);

/* ---- engine-helpers.c: programs and threads beside the loop ---- */

int engine_make_helpers(struct engine *engine);
int engine_make_gpu_watch(struct engine *engine);
/* Attaches tracers to new members, if that is wanted. */
void engine_follow_members(struct engine *engine);
