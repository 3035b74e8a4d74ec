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

#include "jobs/run.h"

struct member {
    pid_t pid;
    pid_t ppid;           /* that it was forked by, or was first seen with; 0: not known */
    uint64_t start_ticks; /* 0 until the first reading */
    struct run *run;
    int64_t sheet_num; /* INT_UNKNOWN: none; inherited as the run is */
    unsigned threads;  /* by the events */
    bool has_ended;    /* by the events; it may still be there as a zombie */
    bool was_found;    /* by a reading, before any event told of it */
    bool was_placed;   /* since registry_begin() */
    bool was_followed; /* whoever attaches tracers to members has looked at it */

    /* For the kernel's own account of membership, where there is one. */
    uint32_t tag;    /* that the kernel knows it by; 0: none */
    bool is_covered; /* its end will be told with all that it has used, and those of its children */
    bool is_counted; /* it was told */
    unsigned look;   /* the last at which it stood there, not yet covered; 0: none */
    int64_t look_ns; /* what it had reaped then, and if it had ended, used */
    /* Since when its system calls are counted, with those of all that it forks; 0: they are not. */
    uint64_t calls_since_ns;
};

static inline struct event_owner member_owner(const struct member *member)
{
    return run_owner(member->run, member->sheet_num);
}

struct registry;

int registry_new(struct registry **ret);
void registry_free(struct registry *registry);

struct run_options {
    const char *run_id;
    const char *job_id;
    int64_t uid;
    enum run_origin origin;
    struct run *parent; /* NULL: none */
};

/* The run is the registry's. 0 or -ENOMEM. */
int registry_add_run(struct registry *registry, const struct run_options *options,
                     struct run **ret);
/* The run was started in `parent`, which came to be known after it; that is not within the run. */
void registry_set_parent(struct run *run, struct run *parent);
/* The run is over, and gone: what is left of its processes belongs to nobody; runs that were
 * started in it are its parent's. Whoever keeps figures of it has let go of it before. */
void registry_end_run(struct registry *registry, struct run *run);

/* Above this many runs at once, somebody is making them in a loop; nobody can keep others out. */
#define REGISTRY_RUNS_MAX          10000
#define REGISTRY_RUNS_PER_USER_MAX 2000

/* Whether there is room for one more run of that user. */
bool registry_has_room(const struct registry *registry, int64_t uid);

struct run *registry_find_run(const struct registry *registry, const char *run_id);
/* By the tag that the kernel knows it by. */
struct run *registry_find_tag(const struct registry *registry, uint32_t tag);
/* By its name, the latest one: names are each user's own. INT_UNKNOWN: anybody's. */
struct run *registry_find_job(const struct registry *registry, const char *job_id, int64_t uid);
/* The name for one more run of that job and user: JOB (unless it is known to be taken elsewhere),
 * or the first of JOB-2, JOB-3, … that none of the user's runs has. */
void registry_free_name(const struct registry *registry, const char *job_id, int64_t uid,
                        bool is_taken, char ret_job_id[static JOB_ID_NUMBERED_MAX_BYTES]);
/* Steps through all runs, oldest first: NULL begins and ends it. */
struct run *registry_next_run(const struct registry *registry, const struct run *run);
size_t registry_run_count(const struct registry *registry);

/* Makes a process a member, as the first one of its run or step. One that belongs to another run
 * or step goes over with all that it has forked since, but for what was registered itself: the
 * innermost owns. What a process has forked before it was known to anybody can be placed, see
 * registry_place(), parents first. 0 or -ENOMEM. */
int registry_add(struct registry *registry, struct run *run, int64_t sheet_num, pid_t pid);

/* A process that was a member in an earlier life of this registry, by its whole identity; parents
 * before their children. It is not counted again, and not the run's root. One that a reading does
 * not find is gone. 0 or -ENOMEM. */
int registry_adopt(struct registry *registry, struct run *run, int64_t sheet_num, pid_t pid,
                   uint64_t start_ticks);

/* Children of `pid` that were not known before belong to `run`: a parent and subreaper of a run
 * inherits its orphans. Those that are older than the run's root do not, and are let go when that
 * is found out. They are of the run's step, if all that was registered in it is of the same one.
 * Each run has one such process, and it is that of one run, the latest. 0 or -ENOMEM. */
int registry_set_foster(struct registry *registry, pid_t pid, struct run *run);

/* The member or foster parent `pid` is the process that started then: whoever a reading finds there
 * instead has only got its pid. */
void registry_expect(struct registry *registry, pid_t pid, uint64_t start_ticks);
bool registry_is_foster(const struct registry *registry, pid_t pid);

/* A child that the foster parent had already: it belongs to no run. 0 or -ENOMEM. */
int registry_add_stranger(struct registry *registry, pid_t pid);
bool registry_is_stranger(const struct registry *registry, pid_t pid);
size_t registry_stranger_count(const struct registry *registry);

/* The run of a process that the foster parent `parent` has reaped: its own, or as an orphan that
 * was never seen, which then counts as one more process of it, unless events would have told of it.
 * NULL: none of ours. */
struct run *registry_run_of_reaped(struct registry *registry, pid_t parent, pid_t pid);

/* Lifecycle events, in their order. 0 or -ENOMEM. A process that ends is remembered by its run if
 * it is that one's root (run.root_pid). The end of one that is no member, as a foster parent may
 * be, is that of its first thread. */
int registry_fork(struct registry *registry, pid_t parent, pid_t child);
void registry_thread(struct registry *registry, pid_t pid);
void registry_exit(struct registry *registry, pid_t pid, int wait_status);

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

/* One that was read and that only the kernel still knows the run of, by its tag: what told of it
 * was lost. As registry_place(). */
int registry_place_tagged(struct registry *registry, uint32_t tag, pid_t pid, pid_t ppid,
                          uint64_t start_ticks, struct member **ret);

struct member *registry_find(const struct registry *registry, pid_t pid);

/* The process is gone for good: reaped. A stranger's pid is free for others then. */
void registry_remove(struct registry *registry, pid_t pid);

/* Steps through all members, parents before their children: NULL begins and ends it. */
struct member *registry_next(const struct registry *registry, const struct member *member);

size_t registry_count(const struct registry *registry);

/* Writes all members' pids, parents before their children, into `into`, which has room for
 * registry_count(). */
size_t registry_pids(const struct registry *registry, pid_t *into);
