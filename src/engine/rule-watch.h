/* Looks at processes that belong to no run, and tells which job the rules of the configuration say
 * they are.
 *
 * Each is looked at when it is first seen and at the next snapshot (it may have been about to
 * execute another program), and again after an exec that the kernel tells of: never in between. */
#pragma once

#include "base/map.h"
#include "jobs/rules.h"

struct rule_watch {
    const struct rules *rules; /* not its own; NULL: there are none */
    int proc_fd;               /* not its own */
    struct map seen;           /* pid → struct sighting */
    unsigned generation;       /* the number of the scan */
    size_t asked;              /* processes, in it */
};

void rule_watch_done(struct rule_watch *watch);

/* One scan: begin, ask about each process that belongs to no run, end. */
void rule_watch_begin(struct rule_watch *watch);
void rule_watch_end(struct rule_watch *watch);

/* 1 if a rule names a job for it, with `facts` in `arena` and the name in `ret_job_id`
 * (JOB_ID_MAX_BYTES + 1); 0 if none does, or it was looked at before; or -ENOMEM. */
int rule_watch_ask(struct rule_watch *watch, pid_t pid, uint64_t start_ticks, struct arena *arena,
                   struct process_facts *ret_facts, char *ret_job_id);

/* It has executed another program: to be looked at again. */
void rule_watch_executed(struct rule_watch *watch, pid_t pid);
/* Other rules: everything is looked at again. */
void rule_watch_configure(struct rule_watch *watch, const struct rules *rules);
