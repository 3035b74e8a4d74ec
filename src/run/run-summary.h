/* The summary of a finished run, out of what is known at its end. No I/O. */
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

/* A signal that came to sonde and was passed on to the command. */
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
    int from_terminal;   /* the last signal that the terminal sent to all; 0: none */
    int sampling_error;  /* 0, or why there were no samples */
    int connector_error; /* 0, or why births and deaths had to be looked for */
    double gap_seconds;
    double max_cpu_pct; /* of one interval; unknown: there was none */
    uint64_t failed_samples;
    const char *collector;        /* that processes were read with in the end */
    struct run_syscalls syscalls; /* lists are the caller's */

    const struct run_usage *usage;   /* NULL: nothing was sampled */
    const struct registry *registry; /* its members are what is left */
    const struct snapshot *latest;   /* after the command's end; NULL: none */
    struct process_event_list chain; /* of failures, up to the command's; empty: not known */

    struct VEC(struct anomaly) anomalies; /* each as it was last told of */
    struct arena arena;                   /* holds their texts */

    /* by the kernel's accounting alone, for when nothing was sampled */
    struct cpu_time reaped;
    int64_t reaped_peak_bytes;
    int64_t oom_kills; /* of the whole machine while it ran; INT_UNKNOWN: not known */
};

void run_facts_done(struct run_facts *facts);
void run_facts_add_reaped(struct run_facts *facts, const struct rusage *usage);
/* One that opened, changed or cleared. At most RUN_ANOMALIES_MAX are kept, and those that there is
 * memory for. */
void run_facts_add_anomaly(struct run_facts *facts, const struct anomaly *anomaly);

/* Far more than there are kinds: within a job, those of one kind fold into one. */
#define RUN_ANOMALIES_MAX 64

/* Texts are placed in `arena`. 0 or -ENOMEM. */
int run_summary_make(const struct run_facts *facts, const struct job_run_options *options,
                     struct arena *arena, struct run_summary *ret);
