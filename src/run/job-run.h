/* One command as a job: `sonde run` without its words.
 *
 * sonde is the command's parent and a subreaper; the command is started before anything else, finds
 * the world as `env CMD` would leave it, and lives on if sonde is killed. Signals sent to sonde are
 * passed on, those that the terminal sent to the whole group are not sent twice; a stop of the
 * command by the terminal stops sonde as well, so that the shell gets its prompt. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "config/config.h"
#include "model/job.h"
#include "probe/bpf/kernel-probe.h"
#include "writer/store-writer.h"

struct run_backend;

struct job_run_options {
    char *const *argv;
    const char *run_id;
    const char *job_id;
    const char *job_type;
    int64_t sheet_num;
    uint64_t interval_ns;
    const struct anomaly_config *anomaly; /* NULL: none are looked for */
    bool wait_for_all; /* not only for the command but for all that it left running */
    enum collector_choice collector;
    bool is_exact; /* the kernel collector is there before the command starts, or nothing is run */
    enum syscalls_choice syscalls;
    enum auto_switch gpus;
    bool traces_members;  /* with strace, unless a daemon keeps the run: then it may */
    bool counts_syscalls; /* every one, from the command's first on; as is_exact */

    /* Where it is kept, how long, and what is hidden; who writes is filled in here. NULL: nothing
     * is kept. Trouble with it is told of, and does not concern the command. */
    const struct store_options *store;
    void (*on_notice)(void *context, const char *text); /* see store-writer.h */
    void *context;
    /* Who keeps the run in our place, while it can; NULL: nobody. Not asked if nothing is kept. */
    const struct run_backend *backend;
};

struct job_run_result {
    int wait_status;            /* of the command */
    bool has_summary;           /* false: memory ran out while it was made */
    struct run_summary summary; /* under the name that the store gave the run, if it did */
    struct arena arena;         /* holds its texts */
    int sampling_error;         /* 0, or why nothing could be sampled */
    uint64_t failed_samples;
    int connector_error;           /* 0, or why births and deaths had to be looked for */
    struct kernel_refusal refusal; /* on -EOPNOTSUPP: why it cannot be exact */
};

/* Blocks until the command has ended. 0; -ECHILD with *ret_exec_errno if the command could not be
 * executed; -EOPNOTSUPP if it was to be exact, and cannot; another negative errno if it could not
 * be started for sonde's own reasons. */
int job_run(const struct job_run_options *options, struct job_run_result *ret, int *ret_exec_errno);
void job_run_result_done(struct job_run_result *result);
