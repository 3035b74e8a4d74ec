/* Finds and loads the configuration of a verb. */
#pragma once

#include "cli/command.h"
#include "config/config.h"

/* Loads the configuration, or the built-in defaults where there is no file. Returns 0, or a
 * negative errno after printing the errors to stderr. The caller owns *ret. */
int load_config(const struct command_context *context, struct config **ret);

/* The same, but puts the errors into `errors` and prints nothing. `again`: a reload, which must not
 * block; see config_load_again(). */
int find_config(const struct command_context *context, bool again, struct config **ret,
                struct config_errors *errors);

/* Prints the errors to stderr, one per line; `error` is what the call returned. An error at a
 * position begins with it (FILE:LINE:COLUMN:), as those of compilers do; others begin as all
 * errors. */
void load_config_report(const struct config_errors *errors, int error);

/* Fills in the paths of the database and the log: as configured, else below the state directory.
 * Returns 0, -ENOENT (neither a path nor a state directory) or -ENOMEM. */
int resolve_paths(const struct command_context *context, struct config *config);
