/* Pressure and admission: whether the next job or step may start. Pure. */
#pragma once

#include "config/config.h"
#include "model/estimate.h"
#include "model/snapshot.h"

/* The configured limits, where `auto` is a share of the effective memory and of the pids limit. If
 * these are unknown, so is the limit, and no job or step is admitted. */
struct pressure_limits {
    double max_memory_mb;
    int64_t max_processes;
};

struct pressure_limits pressure_limits_resolve(const struct limits_config *config,
                                               double memory_total_mb, int64_t pids_limit);

struct pressure_input {
    double unique_mb;  /* of all job processes together, with shared pages counted once: at most */
    int64_t processes; /* of jobs */
    double psi_memory_full_avg10; /* unknown: no such file in this kernel */
    double rate_limited_seconds;  /* how long a reported rate limit still applies; 0: none */
    const char *rate_limit_name;  /* its name; NULL: none */
    bool has_failed;              /* nothing could be read */
};

/* Adds up the figures of a snapshot of all processes. NULL: there is none yet, or the last
 * collection failed. */
struct pressure_input pressure_input_of(const struct snapshot *snapshot);

enum pressure pressure_level(const struct pressure_limits *limits,
                             const struct pressure_input *input);
const char *pressure_name(int level);

struct admission {
    bool allowed;
    double delay_seconds; /* wait this long before the start or, if not allowed, before a retry */
    int level;            /* enum pressure */
    char reason[256];     /* for people; empty: none */
};

/* Decides whether a step may start. */
void pressure_can_start_sheet(const struct pressure_limits *limits,
                              const struct pressure_input *input, struct admission *ret);
/* Decides whether a job may start. `estimate` is that of the job's type; it is ignored if it is
 * NULL or has too little confidence. */
void pressure_should_accept_job(const struct pressure_limits *limits,
                                const struct pressure_input *input,
                                const struct resource_estimate *estimate, struct admission *ret);
