/* The engine's state, private to engine*.c. */
#pragma once

#include "base/vec.h"
#include "detect/rate-limit.h"
#include "engine/engine.h"
#include "engine/lifecycle-feed.h"
#include "engine/reading-limit.h"
#include "engine/rule-runs.h"
#include "engine/tick-builder.h"
#include "engine/unseen-events.h"
#include "sample/kernel-account.h"
#include "sample/syscall-account.h"

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
    uv_timer_t early; /* for a snapshot before the next tick */
    int open_handles;
    struct tick_builder builder;
    struct unseen_events unseen;
    struct VEC(pid_t) pids;
    struct moment last;
    int64_t snapshot_id;
    struct pressure_input pressure; /* as of the last snapshot */
    double memory_total_mb;
    struct rate_limits rate_limits;
    struct reading_limit reading_limit;
    bool skip_next_tick;
    bool is_reading;   /* a snapshot is being taken */
    bool is_resyncing; /* events were lost: this snapshot scans for members */
    bool needs_scan;   /* one more scan: forks before the event source started */
    bool is_failing;
    bool has_lost_events;
    bool has_new_kill;        /* an OOM kill since the last snapshot */
    uint64_t unreported_ends; /* ends that the kernel did not report; not yet added as a gap */
    struct engine_counts counts;
};

/* ---- engine-events.c: events between snapshots, and their sources ---- */
/* Hands over the complete boxes and schedules a flush of the current one, in case no snapshot comes
 * before. */
void engine_plan_flush(struct engine *engine);
/* Schedules a snapshot soon, if the interval is long. It is skipped if it is not needed by then. */
void engine_plan_early(struct engine *engine);
/* Passes the complete boxes to on_tick. */
void engine_hand_over(struct engine *engine);
/* Covers the members (see kernel-account.h), except those of runs that are not calm. */
void engine_cover_members(struct engine *engine);
/* Takes ownership of the connector. */
void engine_start_connector(struct engine *engine, struct connector *connector);

/* ---- engine-steps.c ---- */
/* Reads the processes of the run, and of those around it, without a limit. Returns 0 or a negative
 * errno. */
int engine_read_members(struct engine *engine, const struct run *run);
/* Moves the accounts of members that have changed their run or step; see ledger_move(). Returns 0
 * or -ENOMEM. */
int engine_move_members(struct engine *engine, bool from_now);

/* ---- engine-helpers.c: programs and threads beside the loop ---- */

/* Create the helpers with the tracers, and the watch of GPUs. Return 0 or a negative errno. */
int engine_make_helpers(struct engine *engine);
int engine_make_gpu_watch(struct engine *engine);
/* Attaches tracers to new members, if configured. */
void engine_follow_members(struct engine *engine);
