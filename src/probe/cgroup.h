/* The cgroup limits that apply to sonde, version 2 or 1: the smallest of its cgroup and all
 * ancestors. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"

#define CGROUP_PATH_SIZE 4096

/* The paths of a process in the hierarchies that are used here; "" if it is in none. */
struct cgroup_paths {
    char unified[CGROUP_PATH_SIZE]; /* "0::/…" */
    char memory[CGROUP_PATH_SIZE];  /* version 1 controllers */
    char cpu[CGROUP_PATH_SIZE];
    char pids[CGROUP_PATH_SIZE];
};

/* Parses PID/cgroup. Returns 0 or -EBADMSG. A path with a ".." component, which would lead out of
 * the hierarchy, is an error. */
int cgroup_paths_parse(const char *bytes, size_t length, struct cgroup_paths *ret);

struct cgroup_limits {
    int64_t memory_limit_bytes;     /* INT_UNKNOWN: none applies */
    int64_t memory_available_bytes; /* smallest room below a limit; inactive file cache counts as
                                       room */
    double cpu_count;               /* quota ÷ period; REAL_UNKNOWN: none applies */
    int64_t pids_limit;             /* INT_UNKNOWN: none applies */
};

/* A cgroup with a memory limit. Its files stay open, because its usage is read often. */
struct cgroup_bound {
    int64_t limit_bytes;
    int usage_fd; /* -1: cannot be read */
    int stat_fd;
};

/* Zero-initialised is empty and valid. */
struct cgroup_bounds VEC(struct cgroup_bound);

/* Reads the limits for `paths` below `cgroup_root_fd` (the mount point of the unified hierarchy, or
 * the parent directory of `memory`, `cpu`, `pids` and `unified`). A missing or unreadable file
 * means no limit. Fills `bounds` with the cgroups that limit memory, after emptying it; a cgroup is
 * omitted from it if memory runs out. */
void cgroup_limits_read(int cgroup_root_fd, const struct cgroup_paths *paths,
                        struct cgroup_bounds *bounds, struct cgroup_limits *ret);

/* Returns the present smallest room below the limits, for memory_available_bytes. */
int64_t cgroup_bounds_read(const struct cgroup_bounds *bounds);

void cgroup_bounds_done(struct cgroup_bounds *bounds);
