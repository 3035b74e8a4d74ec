/* The files of a cgroup, of both versions: one parser each, no I/O. All return 0 or -EBADMSG. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* memory.max, memory.limit_in_bytes, memory.current, pids.max, cpu.cfs_quota_us and the like: one
 * number. INT_UNKNOWN where it says that there is no limit: `max`, -1, or a number that no machine
 * reaches, as version 1 writes it (INT64_MAX rounded down to a page). */
int cgroup_number_parse(const char *bytes, size_t length, int64_t *ret);

/* cpu.max, `150000 100000`: quota ÷ period, REAL_UNKNOWN for `max 100000`. */
int cgroup_cpu_max_parse(const char *bytes, size_t length, double *ret_cpu_count);

/* memory.stat: the file cache that goes first when memory is short, children included.
 * INT_UNKNOWN if the line is missing. */
int cgroup_memory_stat_parse(const char *bytes, size_t length, int64_t *ret_inactive_file_bytes);
