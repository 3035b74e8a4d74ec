/* The cgroup limits that apply to sonde: version 2 or 1, and every ancestor, the smallest wins. */
#pragma once

#include <stddef.h>
#include <stdint.h>

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

/* Reads the limits for `paths` below `cgroup_root_fd` (the directory where the hierarchies are
 * mounted: the unified one itself, or `memory`, `cpu`, `pids` and `unified` below it). Files that
 * are missing or unreadable mean no limit from there. */
void cgroup_limits_read(int cgroup_root_fd, const struct cgroup_paths *paths,
                        struct cgroup_limits *ret);
