/* How reading verbs come to what is stored. Whatever goes wrong is said here, once; what these
 * return is 0 or the verb's exit status. */
#pragma once

#include "cli/command.h"
#include "store/store.h"

/* Finds the database by the configuration and the state directory, and opens it for reading. */
int open_store(const struct command *command, const struct command_context *context,
               struct store_reader **ret);

/* A question failed with `error`. */
int store_failed(const struct command *command, const struct store_reader *reader, int error);

/* There is no run that `name` names. */
int store_has_no_job(const struct command *command, struct store_reader *reader, const char *name);
