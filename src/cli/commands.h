/* The table of verbs. Dispatch, help, suggestions and man pages derive from it. */
#pragma once

#include "cli/command.h"

/* In the order of the overview. */
extern const struct command *const commands[];
extern const size_t command_count;

/* The options that every verb accepts. */
extern const struct command_option common_options[];
extern const size_t common_option_count;

/* Returns the verb of that name, or NULL. */
const struct command *commands_find(const char *name);
