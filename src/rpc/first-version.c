#include "rpc/first-version.h"

/* The record grows; this list does not. */
const char *const first_version_figures[] = {
    "wall_seconds",
    "cpu_seconds",
    "user_seconds",
    "system_seconds",
    "peak_rss_mb",
    "peak_total_mb",
    "peak_unique_mb",
    "gap_seconds",
    "max_cpu_pct",
    "processes",
    "left_running",
    "num_samples",
    "collector",
    "syscall_source",
    "syscall_counts",
    "syscall_hotspots",
    "syscall_errors",
    "syscall_seconds",
    NULL,
};

const struct rpc_alias first_version_exactness[] = {
    {"cpu_exactness", "exactness", "cpu_seconds"},
    {"cpu_exactness", "exactness", "user_seconds"},
    {"cpu_exactness", "exactness", "system_seconds"},
    {"rss_exactness", "exactness", "peak_rss_mb"},
    {"total_exactness", "exactness", "peak_total_mb"},
    {"total_exactness", "exactness", "peak_unique_mb"},
    {"processes_exactness", "exactness", "processes"},
    {"syscalls_exactness", "exactness", "syscall_hotspots"},
    {0},
};
