/* How reading verbs come to their answers. Whatever goes wrong is said here, once; what these
 * return is 0 or the verb's exit status. */
#pragma once

#include "cli/command.h"
#include "client/reader.h"
#include "config/config.h"

/* Finds the daemon, or else the database, by the options, the configuration and the state
 * directory. */
int open_reader(const struct command *command, const struct command_context *context,
                struct reader **ret);

/* The daemon alone. */
int open_client(const struct command *command, const struct command_context *context,
                struct client **ret);

/* A question failed with `error`. */
int reader_failed(const struct command *command, const struct reader *reader, int error);

/* There is no run that `name` names. */
int reader_has_no_job(const struct command *command, struct reader *reader, const char *name);

/* Before an answer is printed: says where it comes from, if that may surprise. */
void tell_source(const struct reader *reader);

/* Says that there is nothing to show, and who was asked where that was a daemon. Returns 1. */
int tell_nothing(const struct reader *reader, const char *words);
