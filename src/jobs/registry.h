/* Which run each process belongs to.
 *
 * A process becomes a member at its fork, if there are lifecycle events, otherwise through its
 * parent when it is first read. It stays in its run even if it double-forks, calls setsid or
 * outlives its parent. Pids are reused, so a member is identified by pid and start time; the first
 * reading supplies the start time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "jobs/run.h"

/* What ended processes have used. */
struct ended_usage {
    uint64_t cpu_ns, user_ns, system_ns;
    uint64_t read_bytes, write_bytes;
    int64_t peak_rss_bytes;
    uint64_t processes;
    bool is_incomplete;         /* the time of some is not known, or counted elsewhere */
    int64_t missing_peak_bytes; /* the most that the peak of a program of the process itself can be
                                   that is not known; 0: all are known */
};

struct member {
    pid_t pid;
    pid_t ppid;           /* at its fork or first reading; 0: not known */
    uint64_t start_ticks; /* 0 until the first reading */
    struct run *run;
    struct run_node
        *node;         /* what its usage counts for: its step while that is active, else the run */
    int64_t sheet_num; /* INT_UNKNOWN: none; inherited like the run */
    unsigned threads;  /* according to events */
    bool has_ended;    /* according to events; it may still exist as a zombie */
    bool first_thread_has_ended;
    int wait_status;   /* according to the ends of its threads so far */
    bool was_found;    /* by a reading, before any event */
    bool was_placed;   /* since registry_begin() */
    bool was_followed; /* the tracing code has seen it */
    uint64_t exec_ns;  /* monotonic: its last exec according to the connector; 0: none */

    /* What it used before an exec and, if it has ended, itself, and its descendants that counted
     * for the same node and are members no more: if it moves to a step, they belong there, too. */
    struct ended_usage ended;
    struct run_node *moved_from; /* the node that it has just left; cleared by the engine */

    /* For the kernel collector, if it is in use. */
    uint32_t tag;    /* its tag in the kernel; 0: none */
    bool is_covered; /* its exit, and those of its children, will be reported with exact figures */
    bool is_counted; /* that exit was reported */
    bool is_covered_from_birth; /* so were all its execs, with the peaks before them */
    unsigned cover_check;       /* number of the last check that found it not covered; 0: none */
    int64_t cover_check_ns; /* CPU time that it had then reaped and, if it had ended, used itself */
    /* Since when its system calls and those of its children are counted; 0: they are not. */
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
    struct run *parent;     /* NULL: none */
    struct run_node *outer; /* the parent's step that it was started in; NULL: none */
};

/* Adds a run, which the registry owns. Returns 0 or -ENOMEM. */
int registry_add_run(struct registry *registry, const struct run_options *options,
                     struct run **ret);
/* Sets the run or step that a run was started in, if that became known later. `parent` must not be
 * within the run. */
void registry_set_parent(struct run *run, struct run_node *parent);
/* Ends and frees the run: its remaining processes belong to no run, and runs started in it become
 * those of its parent. The caller must have released all other references to it. */
void registry_end_run(struct registry *registry, struct run *run);

/* Begins a step; an active one only gets the pid, unless that is 0. Returns 0, -ENOMEM, or -E2BIG
 * if too many steps are active. */
int registry_begin_sheet(struct registry *registry, struct run *run, int64_t sheet_num, pid_t pid);
/* Ends a step: its processes, and runs started in it, count for the run only from now on. Returns 1
 * if it was active, otherwise 0. */
int registry_end_sheet(struct run *run, int64_t sheet_num);
/* Returns the oldest of too many ended steps, or NULL. registry_forget_sheet() frees it; the caller
 * must have released all other references to it. */
struct run_sheet *registry_find_excess_sheet(const struct run *run);
void registry_forget_sheet(struct run *run, struct run_sheet *sheet);

/* Limits on simultaneous runs. The one per user keeps a client that adds runs in a loop from
 * blocking other users. */
#define REGISTRY_RUNS_MAX          10000
#define REGISTRY_RUNS_PER_USER_MAX 2000

/* Returns whether there is room for one more run of that user. */
bool registry_has_room(const struct registry *registry, int64_t uid);

/* Returns the run with that id, or NULL. */
struct run *registry_find_run(const struct registry *registry, const char *run_id);
/* Returns the user's latest run with that job id: ids are per user. INT_UNKNOWN: of any user. */
struct run *registry_find_job(const struct registry *registry, const char *job_id, int64_t uid);
/* Finds a free job id for another run of that job and user: JOB (unless `is_taken`, because it is
 * used elsewhere), or the first of JOB-2, JOB-3, … that none of the user's runs has. */
void registry_find_free_name(const struct registry *registry, const char *job_id, int64_t uid,
                             bool is_taken, char ret_job_id[static JOB_ID_NUMBERED_MAX_BYTES]);
/* Iterates over all runs, oldest first: start with NULL; returns NULL at the end. */
struct run *registry_next_run(const struct registry *registry, const struct run *run);
size_t registry_run_count(const struct registry *registry);

/* Registers a process as a member of the run and step. If it belongs to another run or step, it
 * moves with all its descendants, except those that were registered themselves: the innermost
 * registration wins. Existing descendants that the registry does not know can be added with
 * registry_place(), parents first. Returns 0 or -ENOMEM. */
int registry_add(struct registry *registry, struct run *run, int64_t sheet_num, pid_t pid);

/* The same for a member that has ended: it is no other process with its pid. */
void registry_add_ended(struct registry *registry, struct run *run, int64_t sheet_num, pid_t pid);

/* Returns whether the process was registered itself, and has not inherited its run. */
bool registry_is_registered(const struct registry *registry, pid_t pid);

/* Restores a member from before a restart of the daemon, by pid and start time; parents before
 * their children. It is not counted again and is not the root of the run. If the next reading does
 * not find it, it is gone. Returns 0 or -ENOMEM. */
int registry_adopt(struct registry *registry, struct run *run, int64_t sheet_num, pid_t pid,
                   uint64_t start_ticks);

/* Makes `pid` the foster parent of the run: its unknown children belong to the run, because a
 * subreaper inherits the orphans of a run. Children older than the run's root do not; they are
 * removed when their start time becomes known. A foster child gets the step that all registered
 * processes of the run have, if they have the same. A run has at most one foster parent, and a
 * process is the foster parent of only one run, the latest. Returns 0 or -ENOMEM. */
int registry_set_foster(struct registry *registry, pid_t pid, struct run *run);

/* Sets the start time that the member or foster parent `pid` is expected to have: a process that a
 * reading finds with another start time is a different one. */
void registry_expect(struct registry *registry, pid_t pid, uint64_t start_ticks);
bool registry_is_foster(const struct registry *registry, pid_t pid);

/* Excludes a child that the foster parent had before the run: it belongs to no run. Returns 0 or
 * -ENOMEM. */
int registry_exclude(struct registry *registry, pid_t pid);
bool registry_is_excluded(const struct registry *registry, pid_t pid);
size_t registry_excluded_count(const struct registry *registry);

/* Returns the run of a process that the foster parent `parent` has reaped, or NULL. An unknown
 * orphan belongs to the run of the foster parent; it is counted there, unless events already count
 * all processes. */
struct run *registry_run_of_reaped(struct registry *registry, pid_t parent, pid_t pid);

/* Lifecycle events, in order. registry_fork() returns 0 or -ENOMEM. The end of the root of a run
 * (run.root_pid) is stored in the run. For a process that is no member, such as a foster parent,
 * the exit of any thread counts as its end. */
int registry_fork(struct registry *registry, pid_t parent, pid_t child);
void registry_thread(struct registry *registry, pid_t pid);
void registry_exit(struct registry *registry, pid_t pid, int wait_status);

/* A reading of all members has three steps: begin, place each process, drop those that are gone. A
 * member is gone if it was not placed (even a zombie would be), and either has ended according to
 * events or is known only from readings. A member that is alive according to events but was not
 * placed is hidden (hidepid) and stays. */
void registry_begin(struct registry *registry);
void registry_drop_gone(struct registry *registry);

/* Trust: from now on, an event reports every fork. Distrust: events were lost, so that members that
 * cannot be read count as gone, and unknown orphans may appear. */
void registry_trust_events(struct registry *registry);
void registry_distrust_events(struct registry *registry);

/* Finds the membership of a process that was read, or creates one through its parent. A process
 * with a member's pid but another start time is a new process. *ret is NULL if it belongs to no
 * run. Returns 0 or -ENOMEM. */
int registry_place(struct registry *registry, pid_t pid, pid_t ppid, uint64_t start_ticks,
                   struct member **ret);

/* The same for a process that the registry does not know because events were lost, but that still
 * has a tag in the kernel. */
int registry_place_tagged(struct registry *registry, uint32_t tag, pid_t pid, pid_t ppid,
                          uint64_t start_ticks, struct member **ret);

/* Returns the member with that pid, or NULL. */
struct member *registry_find(const struct registry *registry, pid_t pid);

/* Call it when a process was reaped: ends its membership. Also ends an exclusion by
 * registry_exclude(), because the pid may be reused. */
void registry_remove(struct registry *registry, pid_t pid);

/* Iterates over all members, parents before their children: start with NULL; returns NULL at the
 * end. */
struct member *registry_next(const struct registry *registry, const struct member *member);

size_t registry_count(const struct registry *registry);

/* Writes the pids of all members, parents before their children, into `into`, which has room for
 * registry_count(). Returns their number. */
size_t registry_pids(const struct registry *registry, pid_t *into);
