/* The job type of a command that the user runs, or asks about. */
#pragma once

#include "model/job.h"

/* Derives the type from the arguments, without their secrets (model/redact.h), and the working
 * directory. Without memory it has only the program. */
void command_type_format(char *const *argv, const struct text_list *words,
                         char into[static JOB_ID_MAX_BYTES + 1]);
