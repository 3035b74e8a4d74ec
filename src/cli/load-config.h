/* How every verb comes to its configuration. */
#pragma once

#include "cli/command.h"
#include "config/config.h"

/* Finds and loads the configuration, or the built-in defaults where there is no file. 0, or a
 * negative errno after what was wrong has been printed to stderr. */
int load_config(const struct command_context *context, struct config **ret);

/* The same, without a word: what was wrong is in `errors`. `again`: by whoever must not be kept
 * waiting, see config_load_again(). */
int find_config(const struct command_context *context, bool again, struct config **ret,
                struct config_errors *errors);

/* Prints what was wrong to stderr, a line each, as it is; `error` is what the call returned. */
void load_config_report(const struct config_errors *errors, int error);

/* Puts the paths of the database and the log in place: as configured, else below the state
 * directory. 0, -ENOENT (there is neither a path nor a state directory) or -ENOMEM. */
int resolve_paths(const struct command_context *context, struct config *config);
