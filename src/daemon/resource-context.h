/* The resource context: a few current figures of a process, published with events of steps. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/text.h"

struct daemon;

/* Writes the context of a process (`is_of_process`) or of the machine. A pid that is 0, unknown or
 * not visible to user `viewer` gives nulls. */
void resource_context_write(struct daemon *daemon, int64_t viewer, pid_t pid, bool is_of_process,
                            struct text *out);
