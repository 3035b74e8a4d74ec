/* The constants of correlation and estimates that are not in the configuration. They are data, so
 * that tests can change them. docs/LEARNING.md explains them. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The figures that runs are grouped by. */
enum figure {
    FIGURE_MEMORY,
    FIGURE_CPU,
    FIGURE_SYSCALL,
    FIGURE_ANOMALY,
    FIGURE_DURATION,
    FIGURE_COUNT,
};

/* Values from the bound of the previous bin (or 0) up to, but not including, `below`. */
struct bin {
    const char *name; /* also in tags */
    double below;     /* INFINITY: the last */
};

#define BINS_MAX 5

struct figure_constants {
    const char *name;         /* "memory" of "[memory_vs_failure] 1-2GB" */
    const char *tag;          /* "memory_bin" of "memory_bin:1-2GB" */
    double confidence_max;    /* upper limit of the confidence */
    double confidence_weight; /* of the deviation */
};

struct learn_constants {
    /* which runs count */
    double lookback_seconds; /* runs that ended within this time */
    size_t runs_max;         /* at most, the latest; 56 bytes each */
    size_t types_max;        /* at most, those with the most runs; each has up to 40 groups */

    /* groups */
    struct bin memory_bins[BINS_MAX];   /* MiB, peak RSS */
    struct bin duration_bins[BINS_MAX]; /* seconds */
    double cpu_quantiles[3];            /* bounds of the quartiles of CPU seconds */
    double syscall_share_pct; /* minimum share of a call in the time of calls that do not wait */
    size_t group_runs_min;    /* smaller groups are not tested */

    /* findings */
    double deviation_min; /* of the failure rate from the overall rate; smaller ones are dropped */
    /* confidence = min(max, base + share_weight · share + weight · deviation) */
    double confidence_base;
    double confidence_share_weight;
    struct figure_constants figures[FIGURE_COUNT];
    double kept_confidence_min; /* of correlations that are stored as patterns */
    double significant_q_max;   /* of correlations that count as significant */

    /* estimates */
    size_t estimate_runs_max; /* the latest runs of a type: many for a p95, few to follow changes */
    double estimate_half_runs; /* number of runs that gives half of the maximum confidence */
    double percentile_usual;   /* p50 */
    double percentile_most;    /* p95 */
    double percentile_low;     /* quartiles: the wider they are apart, the lower the confidence */
    double percentile_high;
    size_t calibration_runs_max; /* the latest runs of all types together */
};

extern const struct learn_constants learn_constants_default;
