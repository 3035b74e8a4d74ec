/* Parsers of cgroup files, versions 1 and 2; no I/O. All return 0 or -EBADMSG. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Files with one number: memory.max, memory.limit_in_bytes, memory.current, pids.max,
 * cpu.cfs_quota_us and others. "No limit" is INT_UNKNOWN: `max`, -1, or version 1's huge number
 * (INT64_MAX rounded down to a page). */
int cgroup_number_parse(const char *bytes, size_t length, int64_t *ret);

/* cpu.max, `150000 100000`: quota ÷ period, REAL_UNKNOWN for `max 100000`. */
int cgroup_cpu_max_parse(const char *bytes, size_t length, double *ret_cpu_count);

/* memory.stat: the inactive file cache, which the kernel reclaims first, including child cgroups.
 * INT_UNKNOWN if the line is missing. */
int cgroup_memory_stat_parse(const char *bytes, size_t length, int64_t *ret_inactive_file_bytes);
