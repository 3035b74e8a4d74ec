/* For the tests of `sonde top`: a synthetic frame. */
#pragma once

#include "client/feed.h"
#include "top/listing.h"

struct top_world {
    struct snapshot *snapshot; /* that of the frame, which the tests change */
    struct frame frame;
};

/* A machine with two cores and 8 GiB, without processes. */
void top_world_init(struct top_world *world);
void top_world_done(struct top_world *world);

/* The returned pointer is valid until the next item is added. */
struct process_metric *add_process(struct top_world *world, int64_t pid, int64_t ppid,
                                   const char *command, double cpu_percent, double rss_mb);
/* The same, in a run of a job. */
struct process_metric *add_member(struct top_world *world, const char *job_id, int64_t sheet_num,
                                  int64_t pid, int64_t ppid, const char *command,
                                  double cpu_percent, double rss_mb);
struct job_usage *add_job_usage(struct top_world *world, const char *job_id, double cpu_percent,
                                double rss_mb);
struct job_progress *add_progress(struct top_world *world, const char *job_id, int64_t completed,
                                  int64_t total);
struct anomaly *add_anomaly(struct top_world *world, const char *type, int64_t pid,
                            const char *job_id, int severity);

/* Two jobs, one of them with steps; processes without a job; an anomaly. */
void top_world_fill(struct top_world *world);
/* Adds this many processes without a job. */
void top_world_crowd(struct top_world *world, size_t count);
