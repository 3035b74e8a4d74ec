/* The resource context: what a process uses now, in a few figures, to go with events of steps. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/text.h"

struct daemon;

/* Of a process (`is_of_process`; 0, one that is not known or that user `viewer` may not see gives
 * nulls), or of the machine. */
void context_write(struct daemon *daemon, int64_t viewer, pid_t pid, bool is_of_process,
                   struct text *out);
