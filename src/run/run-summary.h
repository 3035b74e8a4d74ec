/* Makes the summary of a finished run. No I/O. */
#pragma once

#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/vec.h"
#include "jobs/registry.h"
#include "model/snapshot.h"
#include "run/job-run.h"
#include "sample/call-ledger.h"
#include "sample/ledger.h"

/* A signal that sonde passed on to the command. */
struct sent_signal {
    int number; /* 0: none */
    pid_t sender_pid;
    char sender_command[128];
};

struct run_facts {
    pid_t command_pid;
    int wait_status;
    uint64_t started_real_ns;
    uint64_t wall_ns;
    uint64_t processes;
    bool saw_every_process;
    bool command_is_stopped;
    struct sent_signal passed_on[_NSIG]; /* by number: the last of each */
    int from_terminal;   /* the last signal from the terminal to the group; 0: none */
    int sampling_error;  /* 0, or the negative errno why there were no samples */
    int connector_error; /* 0, or the negative errno why scans had to find forks and exits */
    double gap_seconds;
    double max_cpu_pct; /* of one interval; unknown: no interval */
    uint64_t failed_samples;
    const char *collector;        /* the last one in use */
    struct run_syscalls syscalls; /* lists are borrowed */

    struct job_profile counted; /* the counts of its events */

    const struct run_usage *usage;        /* NULL: nothing was sampled */
    const struct registry *registry;      /* its members are still running */
    const struct snapshot *latest;        /* after the end of the command; NULL: none */
    struct process_event_list chain;      /* of failures that led to the end; empty: unknown */
    struct process_event_list on_the_way; /* see failure_chains_find() */

    struct VEC(struct anomaly) anomalies; /* the last report of each */
    struct arena arena;                   /* owns their texts */

    /* from wait4: lower bounds, used alone if there are no samples */
    struct cpu_and_io reaped;
    int64_t reaped_peak_bytes;
    bool io_is_counted;    /* by the kernel */
    int64_t oom_kills;     /* of the whole machine during the run; INT_UNKNOWN: unknown */
    int64_t cpu_limit_sec; /* hard limit that the command has inherited; INT_UNKNOWN: none */
};

void run_facts_done(struct run_facts *facts);
void run_facts_add_reaped(struct run_facts *facts, const struct rusage *usage);
/* Adds or updates an anomaly. At most RUN_ANOMALIES_MAX are kept; without memory it is dropped. */
void run_facts_add_anomaly(struct run_facts *facts, const struct anomaly *anomaly);

/* Far more than there are kinds: within a job, those of one kind are one episode. */
#define RUN_ANOMALIES_MAX 64

/* Makes the summary. Texts are placed in `arena`. Returns 0 or -ENOMEM. */
int run_summary_make(const struct run_facts *facts, const struct job_run_options *options,
                     struct arena *arena, struct run_summary *ret);
