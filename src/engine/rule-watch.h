/* Matches processes without a run against the rules of the configuration. A process is matched when
 * it is first seen and at the next snapshot (it may have been about to call exec), and again after
 * an exec that the kernel reports. */
#pragma once

#include "base/map.h"
#include "jobs/rules.h"

struct rule_watch {
    const struct rules *rules; /* borrowed; NULL: none */
    int proc_fd;               /* borrowed */
    struct map seen;           /* pid → struct sighting */
    unsigned generation;       /* the number of the scan */
    size_t matched;            /* processes matched in it */
};

void rule_watch_done(struct rule_watch *watch);

/* One scan: begin, match each process without a run, end. */
void rule_watch_begin(struct rule_watch *watch);
void rule_watch_end(struct rule_watch *watch);

/* Returns 1 if a rule names a job for the process, with `facts` in `arena` and the name in
 * `ret_job_id` (JOB_ID_MAX_BYTES + 1); 0 if none does or the process was matched before; or
 * -ENOMEM. */
int rule_watch_match(struct rule_watch *watch, pid_t pid, uint64_t start_ticks, struct arena *arena,
                     struct process_facts *ret_facts, char *ret_job_id);

/* Has a process matched again, because it called exec. */
void rule_watch_executed(struct rule_watch *watch, pid_t pid);
/* Replaces the rules: all processes are matched again. */
void rule_watch_configure(struct rule_watch *watch, const struct rules *rules);
