/* The job type of a command that the user runs, or asks about. */
#pragma once

#include "cli/command.h"
#include "model/job.h"

/* Derives the type from the arguments, without their secrets (model/redact.h), and the working
 * directory. Without memory it has less, or is empty. */
void command_type_format(char *const *argv, const struct text_list *words,
                         char into[static JOB_ID_MAX_BYTES + 1]);

/* Redacts a type that the user wrote, with the words of the configuration, so that it is the one
 * that is stored. Returns 0, or a negative errno after printing why there is no configuration. */
int command_type_redact(const struct command_context *context, const char *type,
                        char into[static JOB_ID_MAX_BYTES + 1]);
