/* Decides whether a job may start: by the daemon, or without one by the memory of the machine. */
#pragma once

#include "cli/command.h"
#include "client/reader.h"
#include "detect/pressure.h"

/* The exit status of a job that may not start now (EX_TEMPFAIL). */
#define EXIT_NOT_NOW 75

/* `job_type` NULL: unknown. Returns 0 whether or not the job may start, or a negative errno; then
 * `error` has a message unless one was printed already. */
int ask_admission(const struct command_context *context, const char *job_type,
                  struct admission *ret, struct reader_error *error);

/* Repeats ask_admission(), after the delay of each answer (1 s to 60 s), until the job may start.
 * Prints once why it waits. `timeout_sec` REAL_UNKNOWN: no limit. Returns 0, -ETIMEDOUT with the
 * last answer in *ret, -EINTR after a signal handler ran, or as above. */
int await_admission(const struct command_context *context, const char *job_type, double timeout_sec,
                    struct admission *ret, struct reader_error *error);
