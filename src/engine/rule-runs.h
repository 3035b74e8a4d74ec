/* Runs that the rules of the configuration find: which process belongs to which, when one begins,
 * and when it is over.
 *
 * A run by rule is one user's, so that nobody gets into another user's job by its name. sonde
 * itself and processes that are too young to be told of are in none. */
#pragma once

#include "engine/rule-watch.h"
#include "jobs/registry.h"

struct rule_runs {
    struct registry *registry; /* not its own */
    int proc_fd;               /* not its own */
    uint64_t ns_per_tick;      /* of the kernel's clock that process starts are in */
    uint64_t scan_boot_ns;     /* when the scan began */
    uint64_t linger_ns;        /* how long a run outlives its last process; set by the owner */
    struct rule_watch watch;
};

/* What a rule says of a process. */
struct rule_find {
    struct run *run;
    bool is_new;                /* the process is its first one */
    struct process_facts facts; /* of that: its command and cwd, if they can be read */
};

void rule_runs_init(struct rule_runs *runs, struct registry *registry, int proc_fd);
void rule_runs_done(struct rule_runs *runs);

/* One scan: begin, find for each process that belongs to no run, scanned. */
void rule_runs_begin(struct rule_runs *runs);
void rule_runs_scanned(struct rule_runs *runs);

/* 1 if a process that belongs to no run is part of one by a rule, which is made if there is none;
 * the caller registers it. 0 if not, or not yet; or a negative errno: without memory it is asked
 * for again at the next scan. Texts are placed in `arena`. */
int rule_runs_find(struct rule_runs *runs, pid_t pid, uint64_t start_ticks, struct arena *arena,
                   struct rule_find *ret);

/* Calls on_over for each run that has had no process for `linger_ns`; it may end the run. */
void rule_runs_end(struct rule_runs *runs, uint64_t now_ns,
                   void (*on_over)(void *context, struct run *run), void *context);
