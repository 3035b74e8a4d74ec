/* Facts about the machine that are read now and then: its name, the id of its boot, its OOM kills.
 *
 * `proc_root` is the directory of a proc filesystem. */
#pragma once

#include <stdint.h>

#include "base/arena.h"

/* The host name as valid UTF-8, in `arena`; "localhost" if the system has none. NULL without
 * memory. */
char *host_read_name(struct arena *arena);

/* The id of this boot, in `arena`; "" if it cannot be read. NULL without memory. */
char *host_read_boot_id(const char *proc_root, struct arena *arena);

/* The number of processes that the kernel has killed for memory since boot; INT_UNKNOWN if it
 * cannot be read. */
int64_t host_read_oom_kills(const char *proc_root);
