/* The cgroup limits that apply to sonde: version 2 or 1, and every ancestor, the smallest wins. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"

#define CGROUP_PATH_SIZE 4096

/* Where a process stands in the hierarchies that matter here; "" where it is in none. */
struct cgroup_paths {
    char unified[CGROUP_PATH_SIZE]; /* "0::/…" */
    char memory[CGROUP_PATH_SIZE];  /* version 1 controllers */
    char cpu[CGROUP_PATH_SIZE];
    char pids[CGROUP_PATH_SIZE];
};

/* Parses PID/cgroup. 0 or -EBADMSG. A path with a ".." component is refused: it would lead out of
 * the hierarchy. */
int cgroup_paths_parse(const char *bytes, size_t length, struct cgroup_paths *ret);

struct cgroup_limits {
    int64_t memory_limit_bytes;     /* INT_UNKNOWN: none applies */
    int64_t memory_available_bytes; /* smallest room below a limit, its reclaimable file cache
                                       counted as room */
    double cpu_count;               /* quota ÷ period; REAL_UNKNOWN: none applies */
    int64_t pids_limit;             /* INT_UNKNOWN: none applies */
};

/* A cgroup with a memory limit, its files kept open: how much room it leaves changes all the time.
 */
struct cgroup_bound {
    int64_t limit_bytes;
    int usage_fd; /* -1: cannot be read */
    int stat_fd;
};

/* Zero-initialised is empty and valid. */
struct cgroup_bounds VEC(struct cgroup_bound);

/* Reads the limits for `paths` below `cgroup_root_fd` (the directory where the hierarchies are
 * mounted: the unified one itself, or `memory`, `cpu`, `pids` and `unified` below it). Files that
 * are missing or unreadable mean no limit from there. `bounds` is emptied first, and then has the
 * groups that limit memory; one that there is no memory for is left out of it. */
void cgroup_limits_read(int cgroup_root_fd, const struct cgroup_paths *paths,
                        struct cgroup_bounds *bounds, struct cgroup_limits *ret);

/* The smallest room that they leave now: memory_available_bytes. */
int64_t cgroup_bounds_read(const struct cgroup_bounds *bounds);

void cgroup_bounds_done(struct cgroup_bounds *bounds);
