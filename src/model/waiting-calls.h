/* System calls that only wait. */
#pragma once

#include <stdbool.h>

/* Returns whether the call exists to wait (wait4, futex, poll, nanosleep, …), so that its time is
 * not spent on work. */
bool call_is_waiting(const char *name);
