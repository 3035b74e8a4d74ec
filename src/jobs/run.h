/* One run of a job while it goes on: who owns it, how far it has come, which steps are active. */
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
/* Steps of one run that are active at once. */
#define RUN_SHEETS_MAX 4096

enum run_origin {
    RUN_REGISTERED, /* somebody has told of it, and will tell of its end */
    RUN_BY_RULE,    /* jobs.rules has found it: it ends a while after its last process */
};

struct run_sheet {
    int64_t sheet_num;
    pid_t pid; /* of its first process; 0: none was told of */
};

struct run {
    char run_id[UUID_TEXT_SIZE];
    char job_id[JOB_ID_NUMBERED_MAX_BYTES]; /* it does not change */
    int64_t uid;                            /* whose it is; INT_UNKNOWN: not known */
    uint32_t tag; /* a number of its own, by which the kernel knows it; never used again */
    enum run_origin origin;
    struct run *parent; /* the run that it was started in, as the registry keeps it; NULL: none */
    uint64_t processes; /* how many there have been */
    size_t members;     /* how many there are */
    size_t living;      /* of these, when they were last looked at: those that are no zombies */

    bool calls_are_counted;    /* its system calls, every one, by somebody else than a tracer */
    bool misses_events;        /* of what happened before its last process was registered */
    bool caller_stores_events; /* births, programs and ends: its caller stores them itself */
    bool lacks_events;         /* some of these are stored nowhere */

    /* It got its parent late: a process of that run, or of one above, may not be covered by the
     * kernel's account yet. */
    bool awaits_parent_cover;
    bool has_uncovered; /* such processes of its own, when they were last looked for */

    /* For a run by rule: its first process, how that ended, and since when there is none left. */
    pid_t root_pid;
    bool root_has_ended;
    int root_wait_status;
    uint64_t empty_since_ns; /* monotonic; 0: it has members */

    /* As its conductor tells; INT_UNKNOWN and "" if not. */
    int64_t total_sheets;
    int64_t last_completed_sheet;
    int64_t current_sheet;
    char status[RUN_STATUS_MAX_BYTES + 1];
    struct VEC(struct run_sheet) sheets; /* that are active */
};

/* Whether it or a run that it was started in is `ancestor`. */
bool run_is_within(const struct run *run, const struct run *ancestor);

/* A step begins (one that is active already may get another process) or ends. 0, -ENOMEM, -E2BIG:
 * too many are active. Its end is 1 if it was active, else 0. */
int run_begin_sheet(struct run *run, int64_t sheet_num, pid_t pid);
int run_end_sheet(struct run *run, int64_t sheet_num);
const struct run_sheet *run_find_sheet(const struct run *run, int64_t sheet_num);

/* The owner of an event of that run; its texts are the run's. */
struct event_owner run_owner(const struct run *run, int64_t sheet_num);
