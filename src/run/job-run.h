/* Runs one command as a job: `sonde run` without its output.
 *
 * sonde is the command's parent and a subreaper. The command starts before anything else, in the
 * same environment as under `env CMD`, and survives if sonde is killed. Signals sent to sonde are
 * passed on, except those that the terminal sent to the whole group. If the terminal stops the
 * command, sonde stops as well, so that the shell shows its prompt. */
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
    const char *job_type; /* redacted */
    int64_t sheet_num;
    uint64_t interval_ns;
    bool wait_for_all;           /* also wait for processes that the command left running */
    const struct config *config; /* how to measure; the interval is that above */
    bool is_exact; /* exact figures are required: the kernel collector is loaded before the command
                      starts; if that fails, the command is not run */
    bool measures_memory; /* read page tables at new peaks */
    bool counts_syscalls; /* count every system call of the run; requires the kernel collector, as
                             is_exact */

    /* Where to store the run, and retention; job_run() fills in the session. NULL: not stored, and
     * without detection of anomalies. Storage errors are reported and do not affect the command. */
    const struct store_options *store;
    void (*on_notice)(void *context, const char *text); /* see store-writer.h */
    void *context;
    /* A daemon that stores the run in place of sonde while it can; NULL: none. Not used without
     * `store`. */
    const struct run_backend *backend;
};

struct job_run_result {
    int wait_status;  /* of the command */
    bool has_summary; /* false: out of memory */
    struct run_summary
        summary;        /* redacted; with the name that the store gave to the run, if it did */
    struct arena arena; /* owns its texts */
    int sampling_error; /* 0, or why nothing could be sampled */
    uint64_t failed_samples;
    int connector_error;               /* 0, or why forks and exits had to be found by scans */
    struct kernel_probe_error refusal; /* on -EOPNOTSUPP: why exact figures are impossible */
};

/* Runs the command, and blocks until it has ended. Returns 0; -ECHILD with *ret_exec_errno if the
 * command could not be executed; -EOPNOTSUPP if exact figures are required and impossible; another
 * negative errno if sonde could not start it. The caller frees *ret in any case. */
int job_run(const struct job_run_options *options, struct job_run_result *ret, int *ret_exec_errno);
void job_run_result_done(struct job_run_result *result);
