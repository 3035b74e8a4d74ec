/* MachineUse: figures of the whole machine over the samples of a period. */
#pragma once

#include "model/field.h"

struct use_range {
    double min;
    double mean;
    double max;
};

struct process_use {
    int64_t pid;
    const char *command;
    const char *job_id;
    double cpu_seconds; /* within the period */
    double max_rss_mb;
};

struct process_use_list LIST(struct process_use);

struct machine_use {
    double first; /* timestamps of the first and last sample within the period; unknown: none */
    double last;
    int64_t samples;
    double system_memory_total_mb;
    double cpu_count;
    struct use_range system_cpu_percent;
    struct use_range system_memory_used_mb;
    struct use_range load_avg_1;
    int64_t max_zombies;
    struct tally_list event_counts;    /* by event type */
    struct process_use_list processes; /* those with the most CPU time, and with the most memory */
};

extern const struct record machine_use_record;
