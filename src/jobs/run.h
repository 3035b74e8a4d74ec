/* A run in progress: its owner, its progress, its active steps. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/uuid.h"
#include "base/vec.h"
#include "model/job.h"
#include "model/tick-box.h"

#define RUN_STATUS_MAX_BYTES 64
/* Limit of simultaneously active steps of one run, and of ended ones that may start again. */
#define RUN_SHEETS_MAX 4096

enum run_origin {
    RUN_REGISTERED, /* a client has registered it and will report its end */
    RUN_BY_RULE,    /* found by jobs.rules: it ends some time after its last process */
};

/* A node of the tree in which usage is summed: what a process uses counts for the node that it
 * belongs to and for all nodes around that one. A run is a node, and each of its steps is a node
 * within it. Kept by the registry. */
struct run_node {
    struct run *run;        /* the run that the node is, or belongs to */
    struct run_node *outer; /* NULL: none */
    uint32_t tag;           /* unique number in the kernel collector; never reused */
    uint64_t processes;     /* number of processes so far, with those of the nodes in it */
    uint64_t failed;        /* of these, the number that exited with a nonzero status */
    uint64_t killed;        /* and the number that a signal killed */
};

/* A step. When it ends, its processes count for the run only; if it starts again, later ones count
 * for the same node. */
struct run_sheet {
    struct run_node node;
    int64_t sheet_num;
    pid_t pid; /* of its first process; 0: not reported */
    bool is_active;
    int64_t starts;           /* how often it was started */
    bool misses_early_events; /* of a registered process, from before its registration */
};

struct run {
    struct run_node node;
    char run_id[UUID_TEXT_SIZE];
    char job_id[JOB_ID_NUMBERED_MAX_BYTES]; /* constant */
    int64_t uid;                            /* of its owner; INT_UNKNOWN: not known */
    enum run_origin origin;
    struct run *parent;    /* the run that it was started in, kept by the registry; NULL: none */
    bool misses_processes; /* a run in it ended before its processes: their forks are not counted */
    size_t members;        /* number of present processes */
    size_t living;         /* of these, the number that were not zombies at the last reading */

    bool calls_are_counted;    /* all its system calls, by the kernel collector, not by a tracer */
    bool misses_early_events;  /* of the last registered process, from before its registration */
    bool caller_stores_events; /* its client stores forks, execs and exits itself */
    bool has_unstored_events;  /* neither its client nor the daemon stores all forks and exits */

    /* It got its parent late: the kernel collector may not cover all processes of the parent runs
     * yet. */
    bool awaits_parent_cover;
    bool has_uncovered; /* the kernel collector did not cover all its processes at the last check */

    pid_t root_pid; /* its first process; 0: none yet */
    bool root_has_ended;
    int root_wait_status; /* if it has ended */
    uint64_t last_end_ns; /* monotonic time of the last end that an event reported; or 0 */

    /* RUN_BY_RULE, monotonic: */
    uint64_t lived_ns;       /* it had a living process at this snapshot */
    uint64_t empty_since_ns; /* without a living process since then; 0: it has one */

    /* As its scheduler reports; otherwise INT_UNKNOWN and "". */
    int64_t total_sheets;
    int64_t last_completed_sheet;
    int64_t current_sheet;
    char status[RUN_STATUS_MAX_BYTES + 1];
    struct VEC(struct run_sheet *) sheets; /* in the order of their (last) start */
    size_t active_sheets;
};

/* Returns whether `ancestor` is the node itself, or around it. */
bool run_node_is_within(const struct run_node *node, const struct run_node *ancestor);

/* Counts a reported end of a process of the node. */
void run_node_count_end(struct run_node *node, int wait_status);

/* Returns whether `ancestor` is the run itself, or a run that it was started in. */
bool run_is_within(const struct run *run, const struct run *ancestor);

/* Returns the run that was started in no other one: the run itself, or one around it. */
const struct run *run_outermost(const struct run *run);

/* Returns the step, or NULL if it is not active. */
struct run_sheet *run_find_sheet(const struct run *run, int64_t sheet_num);

/* Returns the owner for an event of that run and step. The run owns its strings. */
struct event_owner run_owner(const struct run *run, int64_t sheet_num);
