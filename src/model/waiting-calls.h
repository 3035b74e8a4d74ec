/* System calls that only wait. */
#pragma once

#include <stdbool.h>

/* Whether the call exists to wait for others (wait4, futex, poll, nanosleep, …): its time says
 * nothing about the work of its caller. */
bool call_is_waiting(const char *name);
