/* Runs as they are told of: begun, advanced, ended; with the registry, the store and the bus kept
 * in step. What a peer may do is decided before. */
#pragma once

#include "base/map.h"
#include "base/text.h"
#include "engine/engine.h"
#include "jobs/registry.h"
#include "model/process-facts.h"

struct daemon;

/* What the registry does not need to know of a run. */
struct lifecycle_entry {
    struct run *run;
    struct job begun;   /* as it was told of */
    struct arena arena; /* holds its texts */
    pid_t owner_pid;    /* who told of it; 0: a rule has found it, or somebody whom we cannot see */
    uint64_t told_ns;   /* monotonic: when it was last told of */
    struct moment known_at; /* when its beginning was told */
    uint64_t owner_start_ticks;
    bool is_adopted;           /* and not told of again since: it ends with its processes */
    bool was_left_alone;       /* at the last sweep */
    bool has_lost_caller;      /* its caller stored events, and was gone at a sweep */
    bool is_continued;         /* others have kept its beginning */
    uint64_t summed_processes; /* how many were over when the last snapshot was taken, if all were;
                                  else 0 */
    int64_t sheet_num;         /* the run is this step of its job; INT_UNKNOWN: it is not one */

    /* The text of begun.parent_run_id, if the run got its parent late. */
    char parent_run_id[UUID_TEXT_SIZE];
};

/* Zero-initialised is empty and valid. */
struct run_lifecycle {
    struct map entries;        /* struct lifecycle_entry, by address of its run */
    bool has_stored_elsewhere; /* there was a run whose caller stores its events */
};

void run_lifecycle_done(struct run_lifecycle *desk);

/* Whether a process has told of a run that goes on. */
bool run_lifecycle_has_run_of(const struct daemon *daemon, pid_t owner_pid);

/* How a run begins. Texts may be NULL, numbers unknown. */
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
    bool hides_parent; /* it is another user's */
    pid_t owner_pid;
    bool is_adopted;
    bool is_continued;
};

/* 0 or a negative errno; -ENOBUFS: too much waits to be stored. */
int run_lifecycle_begin(struct daemon *daemon, const struct job_start *start, struct run **ret);

/* Somebody tells of it: of one that was adopted, this is its owner from now on. */
void run_lifecycle_told_by(struct daemon *daemon, struct run *run, pid_t owner_pid);

/* Births, programs and ends of the run are stored by its caller, until that is gone. */
void run_lifecycle_store_no_lives(struct daemon *daemon, struct run *run);

/* Whether an event is one of those. */
bool run_lifecycle_is_stored_elsewhere(const struct daemon *daemon,
                                       const struct process_event *event);

/* The store gets the beginning of the run once more: its caller has stored it, or its events, for a
 * while, or it has got a parent. */
void run_lifecycle_take_back(struct daemon *daemon, const struct run *run);

/* The processes of the run are known: runs that were started in it and registered earlier get it as
 * their parent. 0 or -ENOMEM. */
int run_lifecycle_find_inner(struct daemon *daemon, struct run *run);

/* The caller stores the run from now on, and what has happened to it until now. The run is gone. */
void run_lifecycle_leave(struct daemon *daemon, struct run *run);

/* Seconds since its beginning, by the clock that gives more: one may have been set meanwhile.
 * REAL_UNKNOWN: nobody has told when that was. */
double run_lifecycle_age(const struct daemon *daemon, const struct run *run);

/* Of one that failed with `exit_code` or by `signal_num`: the chain of failures that led there,
 * unless the job has a longer one from its parent, or one with another end; and the cause, if it
 * has none, or if it is derived from these alone and the chain says more. Both are placed in
 * `arena`. */
void run_lifecycle_explain(struct daemon *daemon, struct run *run, bool is_derived,
                           struct arena *arena, struct job *job);

/* The outcome and what figures there are: the rest is what the samples say. The run is gone. */
void run_lifecycle_finish(struct daemon *daemon, struct run *run, const struct job *told);

/* The run is a step itself: that ends with it, with its figures. */
void run_lifecycle_is_step(struct daemon *daemon, const struct run *run, int64_t sheet_num);

/* After a change of its progress. */
void run_lifecycle_progressed(struct daemon *daemon, const struct run *run);

/* A step begins or ends; `context_json` is the resource context that is published with it. */
struct run_lifecycle_step {
    int64_t sheet_num;
    const char *name;
    struct process_id process; /* with which it begins, or that has ended with it */
    int64_t exit_code;
    int outcome;              /* OUTCOME_RUNNING: it begins */
    enum event_replay replay; /* of its process */
    const struct text *context_json;
};

/* One that is active does not begin again, but may get a name or a process that it did not have.
 * 0, -E2BIG (too many steps at once), -ENOBUFS (too much waits to be stored) or -ENOMEM. */
int run_lifecycle_step(struct daemon *daemon, struct run *run,
                       const struct run_lifecycle_step *step);

/* A run by rule; one whose processes are gone, too. */
void run_lifecycle_found(struct daemon *daemon, struct run *run, const struct process_facts *facts);
void run_lifecycle_over(struct daemon *daemon, struct run *run);

/* Runs whose owner is gone, and all of whose processes are: they end, as their first process did if
 * that was seen, else as lost. */
void run_lifecycle_sweep(struct daemon *daemon);
