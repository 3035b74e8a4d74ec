/* How every verb comes to its configuration. */
#pragma once

#include "cli/command.h"
#include "model/config.h"

/* Finds and loads the configuration, or the built-in defaults where there is no file. 0, or a
 * negative errno after what was wrong has been printed to stderr. */
int load_config(const struct command_context *context, struct config **ret);

/* Prints what was wrong to stderr, a line each, as it is; `error` is what the call returned. */
void load_config_report(const struct config_errors *errors, int error);
