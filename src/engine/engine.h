/* The collection loop of `sonde run` and of the daemon.
 *
 * Takes a snapshot at the start and then at every tick of an absolute schedule, searches for
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
#include "engine/engine-settings.h"
#include "engine/gpu/gpu-watch.h"
#include "jobs/registry.h"
#include "loop/helper.h"
#include "model/job.h"
#include "model/tick-box.h"
#include "probe/connector.h"
#include "sample/call-ledger.h"
#include "sample/collector.h"
#include "trace/tracing.h"

struct engine;

struct engine_options {
    struct engine_settings settings;
    const struct run_node *measured; /* its memory is measured at new peaks; NULL: none */
    bool only_jobs;                  /* read only the processes of runs, and sonde itself */
    struct registry *registry;       /* borrowed */
    struct connector *connector;     /* the engine takes ownership; NULL: none */
    struct kernel_probe *kernel;     /* borrowed; NULL: none */

    /* A process that sonde started itself and has made a member (0: none), and when. Its spawn is
     * reported even if the kernel reports no forks; gaps count from its start. */
    pid_t spawned_pid;
    struct moment spawned_at;
    uint64_t huge_pages_before; /* huge_pages_count() before its start */
    /* Its program and its command line (NULL: unknown); must outlive the engine. */
    const char *spawned_path, *spawned_command;
    bool counts_spawned; /* its system calls are already counted, see kernel_probe_count_calls() */

    bool wants_events;       /* boxes contain the events of the processes of runs */
    unsigned flush_after_ms; /* 0: no limit */
    /* The receiver owns the box. A box that is full, or older than `flush_after_ms`, comes early
     * and without a snapshot. */
    void (*on_tick)(void *context, struct tick_box *box);
    /* Called when snapshots begin to fail, with a negative errno, and when they succeed again (0).
     * May be NULL. */
    void (*on_collection)(void *context, int error);
    /* Called with the reason if GPUs are required (settings.gpus) and there are none. May be NULL.
     */
    void (*on_no_gpus)(void *context, const char *reason);
    unsigned gpus_after_ms; /* the search for GPUs starts after this time */
    /* Returns whether this engine does the expensive work: tracing new processes (if configured)
     * and opening GPU drivers. NULL: yes. */
    bool (*may_inspect)(void *context);
    /* Called if a run ended before its last tracer reported, with all system calls that tracers
     * counted. May be NULL. */
    void (*on_late_syscalls)(void *context, const char *run_id,
                             const struct run_syscalls *syscalls);
    /* A rule found a new run; `facts` are those of its first process. May be NULL. */
    void (*on_run_found)(void *context, struct run *run, const struct process_facts *facts);
    /* A run that a rule found is over: it has had no process for settings.linger_ns. The receiver
     * calls engine_end_run(). May be NULL. */
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
    uint64_t run_readings; /* by engine_read_run() */
    uint64_t skipped_run_readings;
};

/* Starts the engine, and takes the first snapshot before it returns. Returns 0 or a negative errno.
 */
int engine_start(uv_loop_t *loop, const struct engine_options *options, struct engine **ret);
void engine_close(struct engine *engine);

/* Detaches all tracers and runs the loop until they have reported and ended, for at most a little
 * more than TRACE_LAST_WAIT_MSEC. No others are attached afterwards. */
void engine_stop_tracing(struct engine *engine);

/* Reads processes and their events through sonde's BPF programs from now on. The caller owns
 * `kernel`, which must outlive the engine. Returns 0, or a negative errno and keeps the previous
 * source. */
int engine_use_kernel(struct engine *engine, struct kernel_probe *kernel);

/* Replaces the settings; the state stays. With other words of redaction, the command lines of
 * living processes are redacted anew at the next snapshot. Returns 0, or a negative errno and keeps
 * the old settings, which must be valid until then. */
int engine_configure(struct engine *engine, const struct engine_settings *settings);

/* Takes a snapshot now; the schedule does not change. Returns 0 or a negative errno. */
int engine_collect(struct engine *engine);
/* Reports the OOM kills that are held back until a job may claim them. For shutdown: no job is
 * registered after this call. */
void engine_report_held_kills(struct engine *engine);
/* Returns whether there was an OOM kill since the last snapshot; its anomaly comes with the next
 * one. */
bool engine_has_new_kill(const struct engine *engine);
/* Passes the events since the last box to on_tick, without a snapshot. */
void engine_flush(struct engine *engine);

/* Waits for ends that the kernel reports late. Ends that do not come within `patience_ns` become a
 * gap of the next snapshot. */
void engine_await_ends(struct engine *engine, uint64_t patience_ns);

/* ---- runs ---- */

/* Reads the queued events, so that the registry knows all forks until now. */
void engine_drain(struct engine *engine);
/* Passes the events of a run that a client reports as over to on_tick. If the first process of the
 * run has ended, waits shortly for the report of its end: a parent can learn of the end before the
 * final CPU time is known. Does not wait for a process that is still ending, so a client cannot
 * stall the daemon this way. */
void engine_settle(struct engine *engine, const struct run *run);

/* Returns whether `parent` forked `pid` recently; that process may be gone already. */
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
 * events until now. Returns 0 or -ENOMEM. */
int engine_register(struct engine *engine, struct run *run, int64_t sheet_num,
                    struct process_id process, enum event_replay replay);
/* Notes that the run was started in `parent` (a run or a step), which was registered later. Ends in
 * the run until now are missing in the CPU time of `parent`, which becomes a lower bound. Returns 0
 * or -ENOMEM. */
int engine_set_parent(struct engine *engine, struct run *run, struct run_node *parent);
/* Reads the processes of the run, and of those around it, so that its usage and that of its steps
 * is up to date. Waits shortly for the reports of those that have ended. Returns 0 or a negative
 * errno: -EBUSY if clients have caused so many readings that this one was skipped. */
int engine_read_run(struct engine *engine, const struct run *run);
/* Returns whether the kernel has reported all that the run used: all ends, and the processes that
 * live are covered. Then its figures are exact unless its usage notes that some are missing. */
bool engine_covers(const struct engine *engine, const struct run *run);
/* Ends a step: freezes its usage, and fills in its figures. `was_read`: engine_read_run() has just
 * succeeded; else the figures are lower bounds. Returns 1, or 0 if it was not active. */
int engine_end_step(struct engine *engine, struct run *run, int64_t sheet_num, bool was_read,
                    struct sheet *ret);
/* Reports the start or end of a step as a spawn or exit of `pid` (0: none). */
void engine_report_step(struct engine *engine, const struct run *run, int64_t sheet_num,
                        enum event_type type, pid_t pid, int64_t exit_code, const char *details,
                        double timestamp);
/* Drops all state of the run and removes it from the registry. */
void engine_end_run(struct engine *engine, struct run *run);

/* Records that sonde has reaped a process: if it was a member of a run, adds its figures, and its
 * end if the kernel did not report it. */
void engine_reaped(struct engine *engine, pid_t pid, int wait_status, const struct rusage *usage);
/* Records that a signal was sent to a process of the run, which may be gone by now. `sent` has the
 * number and the sender. */
void engine_signalled(struct engine *engine, const struct run *run, pid_t pid,
                      const struct process_event *sent);

/* Returns the usage of a run as of the last snapshot; NULL if nothing was ever observed of it. */
const struct run_usage *engine_usage(const struct engine *engine, const struct run *run);
/* Fills in the system calls of the run. Lists are placed in `arena`. Returns 0 or -ENOMEM. */
int engine_syscalls(const struct engine *engine, const struct run *run, struct arena *arena,
                    struct run_syscalls *ret);

/* Finds the failures that led to the end of `pid`, see failure_chains_find(), in the boxes that
 * were passed to on_tick so far. */
int engine_find_failure_chain(const struct engine *engine, const struct run *run, pid_t pid,
                              int64_t exit_code, int64_t signal_num, struct arena *arena,
                              struct process_event_list *ret_chain,
                              struct process_event_list *ret_on_the_way);

/* ---- state ---- */

const struct engine_counts *engine_counts(const struct engine *engine);
/* Returns whether the kernel reported every process of every run, so that none was only found by a
 * scan. */
bool engine_saw_every_process(const struct engine *engine);
struct tracing *engine_tracing(const struct engine *engine);
/* Returns the programs that sonde started for itself; they belong to no run. */
struct helpers *engine_helpers(const struct engine *engine);
/* Returns whether the kernel reports forks and exits. */
bool engine_has_events(const struct engine *engine);
/* Returns how processes are read: "bpf" or "procfs". */
const char *engine_collector(const struct engine *engine);
/* Writes the source of GPU figures, or why there are none. */
void engine_describe_gpus(const struct engine *engine, char ret[static GPU_TEXT_SIZE]);
/* Returns NULL if there is no detection. */
const struct detector *engine_detector(const struct engine *engine);

/* Records that a service limits the rate of its clients for `seconds`: for jobs of that user, or of
 * all users (INT_UNKNOWN). */
void engine_note_rate_limit(struct engine *engine, int64_t uid, const char *name, double seconds);
/* Returns the limits and the pressure as of the last snapshot, for a user or for all users
 * (INT_UNKNOWN). */
void engine_pressure(const struct engine *engine, int64_t uid, struct pressure_limits *ret_limits,
                     struct pressure_input *ret_input);
