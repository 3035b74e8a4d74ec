/* The collection loop of `sonde run` and of the daemon.
 *
 * Takes a snapshot at the start and then at every tick of an absolute schedule, looks for
 * anomalies, and passes both to on_tick, with the events of the processes of runs since the last
 * one. The first process of a run is sampled soon, even with a long interval. A failure is counted
 * and affects nothing else; after a failed collection the next tick is skipped. Missed ticks,
 * suspends, clock steps and lost events are reported as gaps. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <uv.h>

#include "detect/detector.h"
#include "detect/pressure.h"
#include "engine/gpu/gpu-watch.h"
#include "jobs/registry.h"
#include "jobs/rules.h"
#include "loop/helper.h"
#include "model/tick-box.h"
#include "probe/connector.h"
#include "sample/call-ledger.h"
#include "sample/collector.h"
#include "trace/tracing.h"

struct engine;

/* Settings that may change. The pointers must stay valid until the engine is closed or configured
 * anew. */
struct engine_settings {
    uint64_t interval_ns;
    enum scope scope;
    const struct anomaly_config *anomaly; /* NULL: no detection */
    const struct limits_config *limits;   /* NULL: no pressure level */
    const struct rules *rules;            /* NULL: none */
    uint64_t linger_ns; /* how long a run found by a rule outlives its last process */
    enum syscalls_choice syscalls;
    enum auto_switch gpus;
    bool traces_members; /* attach `strace -c` to every new process of a run */
};

struct engine_options {
    struct engine_settings settings;
    bool only_jobs;              /* read only the processes of runs, and sonde itself */
    struct registry *registry;   /* borrowed */
    struct connector *connector; /* the engine takes ownership; NULL: none */
    struct kernel_probe *kernel; /* borrowed; NULL: none */

    /* A process that sonde started itself, a member already, and when (0: none). Its spawn is
     * reported even where the kernel reports no forks; samples are due from its start. */
    pid_t spawned_pid;
    struct moment spawned_at;
    const char *spawned_path; /* its program; must outlive the engine */
    bool counts_spawned; /* its system calls are counted already, see kernel_probe_count_calls() */

    /* The receiver owns the box. A box that is full, or older than `flush_after_ms` (0: no limit),
     * comes early and without a snapshot. */
    bool wants_events;
    unsigned flush_after_ms;
    void (*on_tick)(void *context, struct tick_box *box);
    /* Snapshots fail from now on, with the reason; 0: they succeed again. May be NULL. */
    void (*on_collection)(void *context, int error);
    /* GPUs are required (settings.gpus) and there are none, with the reason. May be NULL. */
    void (*on_no_gpus)(void *context, const char *reason);
    unsigned gpus_after_ms; /* the search for GPUs starts after this time */
    /* Returns whether this engine does the expensive work: tracing new processes (if configured)
     * and opening GPU drivers. NULL: yes. */
    bool (*may_inspect)(void *context);
    /* The system calls of a run that ended before its last tracer reported: all that tracers
     * counted. May be NULL. */
    void (*on_late_syscalls)(void *context, const char *run_id,
                             const struct run_syscalls *syscalls);
    /* A rule found a run, with its first process. The run is over: it has had no process for
     * settings.linger_ns; the receiver calls engine_end_run(). */
    void (*on_run_found)(void *context, struct run *run, const struct process_facts *facts);
    void (*on_run_over)(void *context, struct run *run);
    void *context;
};

/* Counters for `sonde status`. */
struct engine_counts {
    uint64_t collected;
    uint64_t failed; /* collections */
    uint64_t failed_detections;
    uint64_t failed_syscalls; /* samples of system calls */
    uint64_t failed_gpus;     /* out of memory */
    uint64_t missed_ticks;
    uint64_t event_losses; /* how often lifecycle events were lost */
};

/* Takes the first snapshot before it returns. 0 or a negative errno. */
int engine_start(uv_loop_t *loop, const struct engine_options *options, struct engine **ret);
void engine_close(struct engine *engine);

/* Detaches all tracers and runs the loop until they have reported and ended: TRACE_LAST_WAIT_MSEC
 * and a little more at most. No others are attached afterwards. */
void engine_stop_tracing(struct engine *engine);

/* From now on reads processes and their events through sonde's BPF programs; see options.kernel.
 * Returns 0, or a negative errno and keeps the previous source. */
int engine_use_kernel(struct engine *engine, struct kernel_probe *kernel);

/* Replaces the settings; the state stays. Returns 0, or a negative errno and keeps the old
 * settings. */
int engine_configure(struct engine *engine, const struct engine_settings *settings);

/* Takes a snapshot now; the schedule stays. 0 or a negative errno. */
int engine_collect(struct engine *engine);
/* Reports the OOM kills that are held back until a job may claim them. For shutdown: no job is
 * registered after this call. */
void engine_report_held_kills(struct engine *engine);
/* Returns whether there was an OOM kill since the last snapshot; its anomaly comes with the next
 * one. */
bool engine_has_new_kill(const struct engine *engine);
/* Passes on the events since the last box, without a snapshot. */
void engine_flush(struct engine *engine);

/* Waits for ends that the kernel reports late. Ends that do not come within `patience_ns` become a
 * gap of the next snapshot. */
void engine_await_ends(struct engine *engine, uint64_t patience_ns);

/* ---- runs ---- */

/* Reads the queued events, so that the registry knows all forks until now. */
void engine_drain(struct engine *engine);
/* Passes on the events of a run that a client reports as over. Waits shortly for the end of its
 * first process, if that has ended: a parent can learn of it before the final CPU time is known. A
 * process that is still ending is not waited for, so a client cannot stall the daemon this way. */
void engine_settle(struct engine *engine, const struct run *run);

/* Returns whether `parent` forked `pid` recently; it may be gone already. */
bool engine_saw_fork(struct engine *engine, pid_t parent, pid_t pid);

/* Which past events are reported for a process that becomes the first one of a run or step. */
enum event_replay {
    REPLAY_FROM_BIRTH, /* it was started for that: everything since its fork */
    REPLAY_FROM_NOW,   /* its spawn only: earlier events were not part of the run */
    REPLAY_NONE,       /* none: they were reported before */
};

/* A process that a client names; the pid alone may be reused by the time it is used. */
struct process_id {
    pid_t pid;            /* 0: none */
    uint64_t start_ticks; /* 0: it is gone already, known only by its events */
};

/* Makes a process the first one of a run or step, with all its descendants, and reports their
 * events until now. 0 or -ENOMEM. */
int engine_register(struct engine *engine, struct run *run, int64_t sheet_num,
                    struct process_id process, enum event_replay replay);
/* Notes that the run was started in `parent`, which was registered later. Ends in the run until now
 * are missing in the CPU time of `parent`, which becomes a lower bound. 0 or -ENOMEM. */
int engine_set_parent(struct engine *engine, struct run *run, struct run *parent);
/* Reports the start or end of a step as a spawn or exit of `pid` (0: none). */
void engine_report_step(struct engine *engine, const struct run *run, int64_t sheet_num,
                        enum event_type type, pid_t pid, int64_t exit_code, const char *details);
/* Drops all state of the run and removes it from the registry. */
void engine_end_run(struct engine *engine, struct run *run);

/* sonde has reaped a process: if it was a member of a run, adds its figures, and its end if the
 * kernel did not report it. */
void engine_reaped(struct engine *engine, pid_t pid, int wait_status, const struct rusage *usage);
/* A signal was sent to a process of the run, which may be gone by now: `sent` has its number and
 * sender. */
void engine_signalled(struct engine *engine, const struct run *run, pid_t pid,
                      const struct process_event *sent);

const struct run_usage *engine_usage(const struct engine *engine, const struct run *run);
/* The system calls of the run. Lists are placed in `arena`. 0 or -ENOMEM. */
int engine_syscalls(const struct engine *engine, const struct run *run, struct arena *arena,
                    struct run_syscalls *ret);

/* Finds the failures that led to this end, see failure_chains_find(). Covers the boxes passed on so
 * far. */
int engine_find_failure_chain(const struct engine *engine, const struct run *run, pid_t pid,
                              int64_t exit_code, int64_t signal_num, struct arena *arena,
                              struct process_event_list *ret);

/* ---- state ---- */

const struct engine_counts *engine_counts(const struct engine *engine);
/* Returns whether the kernel reported every process of every run, so that none was only found by a
 * scan. */
bool engine_saw_every_process(const struct engine *engine);
struct tracing *engine_tracing(const struct engine *engine);
/* Programs that sonde started for itself; they belong to no run. */
struct helpers *engine_helpers(const struct engine *engine);
/* Whether the kernel reports forks and exits. */
bool engine_has_events(const struct engine *engine);
/* How processes are read: "bpf" or "procfs". */
const char *engine_collector(const struct engine *engine);
/* Writes the source of GPU figures, or why there are none. */
void engine_describe_gpus(const struct engine *engine, char ret[static GPU_TEXT_SIZE]);
/* NULL: no detection. */
const struct detector *engine_detector(const struct engine *engine);

/* A service that jobs depend on limits their rate for now: for jobs of that user, or of all users
 * (INT_UNKNOWN). */
void engine_note_rate_limit(struct engine *engine, int64_t uid, const char *name, double seconds);
/* Pressure as of the last snapshot, for a user or for all (INT_UNKNOWN). */
void engine_pressure(const struct engine *engine, int64_t uid, struct pressure_limits *ret_limits,
                     struct pressure_input *ret_input);
