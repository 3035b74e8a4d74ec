/* A run as learning sees it: a summary, never its samples. */
#pragma once

#include "model/job.h"

/* Of `job` only this is filled: job_type, started_at, ended_at, outcome, cause, and of its profile
 * peak_rss_mb, peak_unique_mb, total_cpu_seconds, wall_seconds and oom_count; and, where they are
 * asked for, syscall_hotspots and syscall_source, and the chain. */
struct run_digest {
    struct job job;
    struct text_list anomaly_types; /* each once */
};
