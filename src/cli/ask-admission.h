/* Whether a job may start: asked of the daemon, and without one judged by the machine's memory. */
#pragma once

#include "cli/command.h"
#include "client/reader.h"
#include "detect/pressure.h"

/* The exit status of a job that may not start now (EX_TEMPFAIL). */
#define EXIT_NOT_NOW 75

/* `job_type` NULL: of no known type. 0, also if the answer is no; or a negative errno, with words
 * unless what was wrong has been printed. */
int ask_admission(const struct command_context *context, const char *job_type,
                  struct admission *ret, struct reader_error *error);

/* Asks again, after as long as each answer says (1 s to 60 s), until it may start; tells once on
 * stderr why it waits. `timeout_sec` REAL_UNKNOWN: as long as it takes. 0: it may; -ETIMEDOUT:
 * still not, with the last answer in *ret; -EINTR: a signal was handled; or as above. */
int await_admission(const struct command_context *context, const char *job_type, double timeout_sec,
                    struct admission *ret, struct reader_error *error);
