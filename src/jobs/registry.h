/* Which run each process belongs to.
 *
 * A process is a member from the moment of its fork: by lifecycle events where there are any, else
 * by its parent when it is first seen. Membership is never taken back and never given after the
 * fact: a process that double-forks, calls setsid or outlives its parent stays in its run. A pid is
 * only half of an identity: a member is (pid, start ticks), the start being learned at the first
 * reading. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/uuid.h"
#include "model/job.h"

/* One run of a job. */
struct run {
    char run_id[UUID_TEXT_SIZE];
    char job_id[JOB_ID_MAX_BYTES + 1];
    int64_t sheet_num;  /* INT_UNKNOWN: none */
    uint64_t processes; /* how many there have been */
};

struct member {
    pid_t pid;
    uint64_t start_ticks; /* 0 until the first reading */
    struct run *run;
    unsigned threads; /* by the events */
    bool has_ended;   /* by the events; it may still be there as a zombie */
    bool was_found;   /* by a reading, before any event told of it */
    bool was_placed;  /* since registry_begin() */
};

struct registry;

int registry_new(struct registry **ret);
void registry_free(struct registry *registry);
void registry_freep(struct registry **registry);

/* The run is the registry's. 0 or -ENOMEM. */
int registry_add_run(struct registry *registry, const char *run_id, const char *job_id,
                     int64_t sheet_num, struct run **ret);

/* Makes a process a member, as the first one of its run or by fork. 0 or -ENOMEM. */
int registry_add(struct registry *registry, struct run *run, pid_t pid);

/* Children of `pid` that were not known before belong to `run`: sonde as the parent and subreaper
 * of a run inherits its orphans. */
void registry_set_foster(struct registry *registry, pid_t pid, struct run *run);

/* A child that the foster parent had already: it belongs to no run. 0 or -ENOMEM. */
int registry_add_stranger(struct registry *registry, pid_t pid);
bool registry_is_stranger(const struct registry *registry, pid_t pid);
size_t registry_stranger_count(const struct registry *registry);

/* The run of a process that `pid` above has reaped: its own, or as an orphan that was never seen,
 * which then counts as one more process of it, unless events would have told of it. NULL: none of
 * ours. */
struct run *registry_run_of_reaped(struct registry *registry, pid_t pid);

/* Lifecycle events, in their order. 0 or -ENOMEM. */
int registry_fork(struct registry *registry, pid_t parent, pid_t child);
void registry_thread(struct registry *registry, pid_t pid);
void registry_exit(struct registry *registry, pid_t pid);

/* A reading of all members there are: begin, place each, drop those that are gone: that ended by
 * the events, or were known by readings alone, and are not there to be read (even a zombie is). One
 * that lives by the events and is not there is hidden from us (hidepid), and stays. */
void registry_begin(struct registry *registry);
void registry_drop_gone(struct registry *registry);

/* Every fork will be told of from now on; or no longer, because events were lost: then members that
 * are not there to be read are gone, and orphans may turn up that nobody has told of. */
void registry_trust_events(struct registry *registry);
void registry_distrust_events(struct registry *registry);

/* A process that was read: finds its membership, or makes one by its parent. A member's pid with
 * another start is another process. *ret is NULL if it belongs to no run. 0 or -ENOMEM. */
int registry_place(struct registry *registry, pid_t pid, pid_t ppid, uint64_t start_ticks,
                   struct member **ret);

struct member *registry_find(const struct registry *registry, pid_t pid);

/* The process is gone for good: reaped. A stranger's pid is free for others then. */
void registry_remove(struct registry *registry, pid_t pid);

/* Steps through all members, parents before their children: NULL begins and ends it. */
struct member *registry_next(const struct registry *registry, const struct member *member);

size_t registry_count(const struct registry *registry);

/* Writes all members' pids, parents before their children, into `into`, which has room for
 * registry_count(). */
size_t registry_pids(const struct registry *registry, pid_t *into);
