/* Analysis: resource use that correlates with failure, from one analysis of finished runs. */
#pragma once

#include "model/field.h"
#include "model/pattern.h"

#define CORRELATION_PATTERN "RESOURCE_CORRELATION"

/* A group of runs that share a property, compared with the other runs. */
struct correlation {
    const char *job_type;     /* NULL: runs of all types */
    const char *pattern_name; /* "[memory_vs_failure] 1-2GB of make test" */
    const char *description;
    const char *figure; /* memory, cpu, syscall, anomaly or duration */
    const char *group;  /* "1-2GB" */
    int64_t runs;
    int64_t failures;
    double failure_rate;
    double rate_low; /* 95 % interval */
    double rate_high;
    double baseline_rate; /* of all runs for which the figure is known, including the group */
    double deviation;     /* failure_rate - baseline_rate: negative if the group fails less often */
    double share;         /* of those runs */
    double confidence;
    double p_value;
    double q_value;
    int significant; /* enum truth */
    struct text_list context_tags;
    const char *suggested_action;
};

struct correlation_list LIST(struct correlation);

enum verdict {
    VERDICT_UNKNOWN,
    VERDICT_FOUND,
    VERDICT_NOTHING_FOUND,
    VERDICT_TOO_FEW_RUNS,
    VERDICT_NO_OUTCOMES, /* runs have ended, but no outcome is known */
    VERDICT_ALL_ALIKE,   /* all runs failed, or none */
};

struct analysis {
    double as_of;
    double since;
    int verdict; /* enum verdict */
    const char *message;
    int64_t runs; /* with a known outcome */
    int64_t failures;
    double failure_rate;
    int64_t runs_without_outcome;
    int64_t runs_left_out; /* 0; unknown: there were more than the limit */
    int64_t min_sample_size;
    int64_t types_left_out;
    int64_t groups_tested;
    struct correlation_list correlations; /* smallest probability of chance first */
    struct pattern_list patterns;         /* all stored patterns, including those of anomalies */
};

extern const struct record correlation_record;
extern const struct record analysis_record;
