/* Decides whether a job may start: the daemon decides, or without one the free memory. */
#pragma once

#include "cli/command.h"
#include "client/reader.h"
#include "detect/pressure.h"

/* The exit status of a job that may not start now (EX_TEMPFAIL). */
#define EXIT_NOT_NOW 75

/* Puts the decision into *ret. `job_type` NULL: unknown. Returns 0, also if the job may not start;
 * or a negative errno, with a message in `error` unless one was printed already. */
int check_admission(const struct command_context *context, const char *job_type,
                    struct admission *ret, struct reader_error *error);

/* Repeats check_admission(), after the delay of each answer (1 s to 60 s), until the job may start.
 * Prints once why it waits. `timeout_sec` REAL_UNKNOWN: no limit. Returns 0, -ETIMEDOUT with the
 * last answer in *ret, -EINTR after a signal handler ran, or as above. */
int await_admission(const struct command_context *context, const char *job_type, double timeout_sec,
                    struct admission *ret, struct reader_error *error);
