/* The input of learn/: the summary of a run, without its samples. */
#pragma once

#include "model/job.h"

/* In `job` only these are set: job_type, started_at, ended_at, outcome, cause, and in its profile
 * peak_rss_mb, peak_unique_mb, cpu_seconds, wall_seconds and oom_count; on request also
 * syscall_hotspots, syscall_source and the chain. */
struct run_digest {
    struct job job;
    struct text_list anomaly_types; /* without duplicates */
};
