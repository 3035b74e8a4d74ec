/* The collection loop, for `sonde run` and the daemon alike.
 *
 * Takes a snapshot at once and then at every tick of an absolute schedule, looks for anomalies, and
 * hands it all on, with what has happened to the processes of runs since the last one. The first
 * process of a run is looked at soon, whatever the interval. A step that
 * fails is counted and harms no other; after a failed collection the next tick is skipped. Missed
 * ticks, suspends, clock steps and lost events are reported as gaps. */
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

/* What may change while it runs. What it points to must outlive the engine, or the next change. */
struct engine_settings {
    uint64_t interval_ns;
    enum scope scope;
    const struct anomaly_config *anomaly; /* NULL: none are looked for */
    const struct limits_config *limits;   /* NULL: pressure is not told */
    const struct rules *rules;            /* NULL: none */
    uint64_t linger_ns;                   /* how long a run of a rule outlives its last process */
    enum syscalls_choice syscalls;
    enum auto_switch gpus;
    bool traces_members; /* attach `strace -c` to every new process of a run */
};

struct engine_options {
    struct engine_settings settings;
    bool only_jobs;              /* read the processes of runs only, and sonde itself */
    struct registry *registry;   /* not the engine's */
    struct connector *connector; /* the engine's from then on; NULL: there is none */
    struct kernel_probe *kernel; /* not the engine's: it must outlive it; NULL: there is none */

    /* A process that sonde has started itself, a member already, and when: its spawn is told even
     * where the kernel tells of none, and samples are due from then on. 0: none. */
    pid_t spawned_pid;
    struct moment spawned_at;
    const char *spawned_path; /* that it executes; must outlive the engine */
    bool counts_spawned; /* the kernel counts its system calls already, see kernel_probe_count_calls
                          */

    /* The box is the receiver's. One that has got too full for more events, or has waited for
     * `flush_after_ms` (0: as long as it takes), comes before its time, and without a snapshot. */
    bool wants_events;
    unsigned flush_after_ms;
    void (*on_tick)(void *context, struct tick_box *box);
    /* Snapshots cannot be taken any more, and why; or, with 0, they can again. May be NULL. */
    void (*on_collection)(void *context, int error);
    /* GPUs were asked for (settings.gpus), and there are none: why. May be NULL. */
    void (*on_no_gpus)(void *context, const char *reason);
    unsigned gpus_after_ms; /* GPUs are not looked for before */
    /* Whether what costs more than a look is done here: new processes are traced, if they are at
     * all, and drivers of GPUs are opened. NULL: it is. */
    bool (*may_look_deeper)(void *context);
    /* All that tracers know of the system calls of a run that was over before the last of them had
     * told. May be NULL. */
    void (*on_late_syscalls)(void *context, const char *run_id,
                             const struct run_syscalls *syscalls);
    /* A run that a rule has found, and its first process; one that is over: it has had no process
     * for settings.linger_ns. The receiver ends it (engine_end_run()). */
    void (*on_run_found)(void *context, struct run *run, const struct process_facts *facts);
    void (*on_run_over)(void *context, struct run *run);
    void *context;
};

/* What went on so far, for those who ask how far to trust it. */
struct engine_counts {
    uint64_t collected;
    uint64_t failed; /* collections */
    uint64_t failed_detections;
    uint64_t failed_syscalls; /* looks at system calls */
    uint64_t failed_gpus;     /* times that there was no memory for them */
    uint64_t missed_ticks;
    uint64_t event_losses; /* times that lifecycle events were lost */
};

/* Takes the first snapshot before it returns. 0 or a negative errno. */
int engine_start(uv_loop_t *loop, const struct engine_options *options, struct engine **ret);
void engine_close(struct engine *engine);

/* Lets all tracers detach, and runs the loop until they have told and are gone, which takes no
 * longer than TRACE_LAST_WAIT_MSEC and a little. No others are attached from then on. */
void engine_stop_tracing(struct engine *engine);

/* Reads processes, and hears of what happens to them, through the kernel's own programs from now
 * on; see options.kernel. 0 or a negative errno, with what it had before. */
int engine_use_kernel(struct engine *engine, struct kernel_probe *kernel);

/* Other settings from now on; what is remembered stays. 0 or a negative errno, with the old ones in
 * force. */
int engine_configure(struct engine *engine, const struct engine_settings *settings);

/* A snapshot out of turn; the schedule stays. 0 or a negative errno. */
int engine_collect(struct engine *engine);
/* Reports the OOM kills that are held back in case that a job claims them. For shutdown: no job is
 * registered after this call. */
void engine_report_held_kills(struct engine *engine);
/* Whether there was an OOM kill since the last snapshot: its anomaly comes with the next one. */
bool engine_has_new_kill(const struct engine *engine);
/* Hands on what has happened since the last one, without a snapshot. */
void engine_flush(struct engine *engine);

/* Waits for the ends of processes that are gone, which the kernel may report late. Those that do
 * not come within `patience_ns` are a gap of the next snapshot. */
void engine_await_ends(struct engine *engine, uint64_t patience_ns);

/* ---- runs ---- */

/* Brings the registry up to date: what has been forked until now is a member or not. */
void engine_catch_up(struct engine *engine);
/* Hands on what has happened to a run that is said to be over. The end of its first process may
 * still wait for its last slice of CPU time: whoever waits for a process can be told of it before
 * that. One that takes long to end, as a file system of its user's may make it, is not over: nobody
 * can make us wait by saying so. */
void engine_settle(struct engine *engine, const struct run *run);

/* Whether `pid` was forked by `parent` not long ago: it may be gone already. */
bool engine_saw_fork(struct engine *engine, pid_t parent, pid_t pid);

/* What is told of a process that becomes the first one of a run or of a step. */
enum event_replay {
    REPLAY_FROM_BIRTH, /* it was started for that: all that has happened to it and its children */
    REPLAY_FROM_NOW,   /* its spawn alone: what it did before was its own */
    REPLAY_NONE,       /* others have told */
};

/* A process that somebody tells of: a pid alone may be another's by the time that it is used. */
struct process_id {
    pid_t pid;            /* 0: none */
    uint64_t start_ticks; /* 0: it is gone already, and known by what the kernel told of it */
};

/* Makes a process the first one of a run or of a step, with all that it has forked already, and
 * tells of what happened to these until now. 0 or -ENOMEM. */
int engine_register(struct engine *engine, struct run *run, int64_t sheet_num,
                    struct process_id process, enum event_replay replay);
/* The run was started in `parent`, which came to be known after it. What had ended in it before is
 * missing in the CPU time of `parent`, which is a lower bound then. 0 or -ENOMEM. */
int engine_set_parent(struct engine *engine, struct run *run, struct run *parent);
/* A step began or ended: told as a spawn or an exit of `pid` (0: none). */
void engine_report_step(struct engine *engine, const struct run *run, int64_t sheet_num,
                        enum event_type type, pid_t pid, int64_t exit_code, const char *details);
/* The run is over: nothing is remembered of it, and it is gone from the registry. */
void engine_end_run(struct engine *engine, struct run *run);

/* sonde has reaped a process: if it was a member of a run, its figures are entered, and its end is
 * told if the kernel has not. */
void engine_reaped(struct engine *engine, pid_t pid, int wait_status, const struct rusage *usage);
/* A signal is on its way to a process of the run, which may be gone by now: `sent` says which, and
 * whose. */
void engine_signalled(struct engine *engine, const struct run *run, pid_t pid,
                      const struct process_event *sent);

const struct run_usage *engine_usage(const struct engine *engine, const struct run *run);
/* The system calls that it has spent its time in. Lists are placed in `arena`. 0 or -ENOMEM. */
int engine_syscalls(const struct engine *engine, const struct run *run, struct arena *arena,
                    struct run_syscalls *ret);

/* Why the run ended so: see failure_chains_find(). As of the last box that was handed on. */
int engine_find_failure_chain(const struct engine *engine, const struct run *run, pid_t pid,
                              int64_t exit_code, int64_t signal_num, struct arena *arena,
                              struct process_event_list *ret);

/* ---- how it stands ---- */

const struct engine_counts *engine_counts(const struct engine *engine);
/* Whether every process of every run was told of by the kernel, none merely found. */
bool engine_saw_every_process(const struct engine *engine);
/* Tracers of processes. */
struct tracing *engine_tracing(const struct engine *engine);
/* Programs that sonde has started for itself, which are nobody's. */
struct helpers *engine_helpers(const struct engine *engine);
/* Whether the kernel tells of births and deaths. */
bool engine_has_events(const struct engine *engine);
/* What processes are read with: "bpf" or "procfs". */
const char *engine_collector(const struct engine *engine);
/* Where figures of GPUs come from, or why there are none. */
void engine_describe_gpus(const struct engine *engine, char ret[static GPU_WORDS_SIZE]);
/* NULL: none are looked for. */
const struct detector *engine_detector(const struct engine *engine);

/* A service that jobs depend on refuses more for now: to jobs of that user, or of everyone
 * (INT_UNKNOWN). */
void engine_note_rate_limit(struct engine *engine, int64_t uid, const char *name, double seconds);
/* As of the last snapshot, for a user, or for everyone. */
void engine_pressure(const struct engine *engine, int64_t uid, struct pressure_limits *ret_limits,
                     struct pressure_input *ret_input);
