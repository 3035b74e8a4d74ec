/* Facts about the machine that are read now and then: its name, the id of its boot, its OOM kills.
 *
 * `proc_root` is the directory of a proc filesystem. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

/* Returns the host name as valid UTF-8, in `arena`; "localhost" if the system has none. Returns
 * NULL if out of memory. */
char *host_read_name(struct arena *arena);

/* Returns the id of this boot, in `arena`; "" if it cannot be read. Returns NULL if out of memory.
 */
char *host_read_boot_id(const char *proc_root, struct arena *arena);

/* Returns the number of processes that the kernel has killed since boot because memory ran out;
 * INT_UNKNOWN if it cannot be read. */
int64_t host_read_oom_kills(const char *proc_root);

/* Returns whether the kernel counts the I/O of processes. */
bool host_counts_io(const char *proc_root);
