/* Begins, advances and ends runs, and keeps registry, store and bus consistent. The caller has
 * checked what the peer may do. */
#pragma once

#include "base/map.h"
#include "base/text.h"
#include "engine/engine.h"
#include "jobs/registry.h"
#include "model/process-facts.h"

struct daemon;

/* What the daemon knows about a run beside the registry. */
struct lifecycle_entry {
    struct run *run;
    struct job begun;       /* as reported at its start */
    struct arena arena;     /* holds its texts */
    pid_t owner_pid;        /* the process that reported it; 0: found by a rule, or not visible */
    uint64_t reported_ns;   /* time of the last report, monotonic */
    struct moment known_at; /* when its start was reported */
    uint64_t owner_start_ticks;
    bool is_adopted;           /* not reported since the restart: ends with its processes */
    bool was_left_alone;       /* at the last sweep, its owner and processes were gone */
    bool has_lost_caller;      /* the caller stored its events, and was gone at a sweep */
    bool is_continued;         /* its start was stored by another writer */
    uint64_t summed_processes; /* at the last snapshot, if all had ended; otherwise 0 */
    int64_t sheet_num;         /* the step that the run is; INT_UNKNOWN: none */

    /* The text of begun.parent_run_id, if the run got its parent late. */
    char parent_run_id[UUID_TEXT_SIZE];
};

/* Zero-initialised is empty and valid. */
struct run_lifecycle {
    struct map entries;        /* struct lifecycle_entry, by address of its run */
    bool has_stored_elsewhere; /* a caller has stored events of a run */
};

void run_lifecycle_done(struct run_lifecycle *lifecycle);

/* Whether a process owns a running run. */
bool run_lifecycle_has_run_of(const struct daemon *daemon, pid_t owner_pid);

/* The start of a run, redacted. Texts may be NULL, numbers unknown. */
struct job_start {
    const char *run_id; /* NULL: a new one */
    const char *job_id;
    const char *job_type;
    const char *command;
    const char *cwd;
    int64_t uid;
    double started_at;
    int64_t total_sheets;
    enum run_origin origin;
    struct run *parent;
    struct run_node *outer; /* the step of the parent that it was started in; NULL: none */
    bool hides_parent;      /* it belongs to another user */
    pid_t owner_pid;
    bool is_adopted;
    bool is_continued;
};

/* Registers, stores and publishes the start of a run. Returns 0 or a negative errno; -ENOBUFS: too
 * many writes are pending. */
int run_lifecycle_begin(struct daemon *daemon, const struct job_start *start, struct run **ret);

/* Notes a report of the run. The first report of an adopted run makes `owner_pid` its owner. */
void run_lifecycle_set_owner(struct daemon *daemon, struct run *run, pid_t owner_pid);

/* From now on the caller stores the forks, execs and exits of the run, as long as it exists. */
void run_lifecycle_leave_events_to_caller(struct daemon *daemon, struct run *run);

/* Whether the caller stores this event. */
bool run_lifecycle_is_stored_elsewhere(const struct daemon *daemon,
                                       const struct process_event *event);

/* Stores the start of the run again: its caller stored the run or its events meanwhile, or it got a
 * parent. */
void run_lifecycle_store_again(struct daemon *daemon, const struct run *run);

/* Makes the run the parent of runs that were started in it and registered earlier. Returns 0 or
 * -ENOMEM. */
int run_lifecycle_find_inner(struct daemon *daemon, struct run *run);

/* The caller stores the whole run from now on. Frees the run. */
void run_lifecycle_leave(struct daemon *daemon, struct run *run);

/* Seconds since the start of the run; the larger value of two clocks, because the wall clock may
 * have been set. REAL_UNKNOWN: the start is unknown. */
double run_lifecycle_age(const struct daemon *daemon, const struct run *run);

/* Adds to a failed job the chain of failures that the daemon saw, unless the chain from its caller
 * is longer or ends with another process. Then sets the cause if the job has none, or if it was
 * derived from the exit status alone (`is_derived`) and the chain explains more. Both are placed in
 * `arena`.
 */
void run_lifecycle_explain(struct daemon *daemon, struct run *run, bool is_derived,
                           struct arena *arena, struct job *job);

/* Stores the reported outcome and figures; samples fill in the others. Frees the run. */
void run_lifecycle_finish(struct daemon *daemon, struct run *run, const struct job *reported);

/* Notes that the run is a step of its job: the step ends with the run and gets its figures. */
void run_lifecycle_is_step(struct daemon *daemon, const struct run *run, int64_t sheet_num);

/* Publishes a change of its progress. */
void run_lifecycle_progressed(struct daemon *daemon, const struct run *run);

/* The start or end of a step; `context_json` is published with it. */
struct run_lifecycle_step {
    int64_t sheet_num;
    const char *name;
    struct process_id process; /* the process that it begins or ended with */
    int64_t exit_code;
    double at;                /* wall clock of the start or end; 0: now */
    int outcome;              /* OUTCOME_RUNNING: the step begins */
    enum event_replay replay; /* of the events of its process */
    bool run_was_read;        /* engine_read_run() has just succeeded; false: it is called */
    const struct text *context_json;
};

/* Stores and publishes the start or end of a step. If an active step is started again, it only gets
 * a missing name or process. Returns 0, -E2BIG (too many active steps), -ENOBUFS (too many writes
 * are pending) or -ENOMEM. */
int run_lifecycle_step(struct daemon *daemon, struct run *run,
                       const struct run_lifecycle_step *step);

/* A run that a rule found begins with a process; it ends when all its processes are gone. */
void run_lifecycle_begin_found(struct daemon *daemon, struct run *run,
                               const struct process_facts *facts);
void run_lifecycle_end_found(struct daemon *daemon, struct run *run);

/* Redacts the command lines of running runs with other words (model/redact.h). */
void run_lifecycle_redact(struct daemon *daemon, const struct text_list *words);

/* Ends runs whose owner and processes are gone: with the outcome of the first process if it was
 * seen, else as lost. */
void run_lifecycle_sweep(struct daemon *daemon);
