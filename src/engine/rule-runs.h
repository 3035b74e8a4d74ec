/* Runs found by the rules of the configuration: which process belongs to which run, and when a run
 * begins and ends. A run belongs to one user, so that a process cannot join another user's job by
 * the job's name. sonde itself and very young processes belong to none. */
#pragma once

#include "engine/rule-watch.h"
#include "jobs/registry.h"

struct rule_runs {
    struct registry *registry; /* borrowed */
    int proc_fd;               /* borrowed */
    uint64_t ns_per_tick;      /* the kernel's clock of process starts */
    uint64_t scan_boot_ns;     /* when the scan began */
    uint64_t linger_ns;        /* how long a run outlives its last process; set by the engine */
    struct rule_watch watch;
};

/* The run that a rule finds for a process. */
struct rule_match {
    struct run *run;
    bool is_new;                /* the process is its first one */
    struct process_facts facts; /* of that process: its command and cwd, if readable */
};

void rule_runs_init(struct rule_runs *runs, struct registry *registry, int proc_fd);
void rule_runs_done(struct rule_runs *runs);

/* One scan: begin, find for each process without a run, scanned. */
void rule_runs_begin(struct rule_runs *runs);
void rule_runs_scanned(struct rule_runs *runs);

/* Finds the run of a process by the rules, and creates the run if it does not exist; the caller
 * registers the process. Returns 1; 0 if no rule matches, or not yet; or a negative errno, after
 * which the next scan tries again. Texts are placed in `arena`. */
int rule_runs_find(struct rule_runs *runs, pid_t pid, uint64_t start_ticks, struct arena *arena,
                   struct rule_match *ret);

/* Calls on_over for each run that has had no process for `linger_ns`; on_over may end the run. */
void rule_runs_end(struct rule_runs *runs, uint64_t now_ns,
                   void (*on_over)(void *context, struct run *run), void *context);
