/* The resource context: what a process uses now, in a few figures, to go with events of steps. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/text.h"

struct daemon;

/* Of a process (`is_of_process`; 0 or one that is not known gives nulls), or of the machine. */
void context_write(const struct daemon *daemon, pid_t pid, bool is_of_process, struct text *out);
