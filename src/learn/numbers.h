/* All numbers of correlation and estimates that are not in the configuration, at one place. They
 * are given as data, so that a test can change them; docs/LEARNING.md says the same in words. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* What runs are grouped by. */
enum figure {
    FIGURE_MEMORY,
    FIGURE_CPU,
    FIGURE_SYSCALL,
    FIGURE_ANOMALY,
    FIGURE_DURATION,
    FIGURE_COUNT,
};

/* From the bound of the bin before (or nothing) up to, but not including, `below`. */
struct bin {
    const char *name; /* also in tags */
    double below;     /* INFINITY: the last */
};

#define BINS_MAX 5

struct figure_numbers {
    const char *name;         /* "memory" of "[memory_vs_failure] 1-2GB" */
    const char *tag;          /* "memory_bin" of "memory_bin:1-2GB" */
    double confidence_max;    /* never more than this … */
    double confidence_weight; /* … which is added for each unit of deviation */
};

struct learn_numbers {
    /* which runs count */
    double lookback_seconds; /* those that ended so long ago at most */
    size_t runs_max;         /* the latest of them, so many: 48 bytes each */

    /* what is looked at */
    struct bin memory_bins[BINS_MAX];   /* MiB, peak RSS */
    struct bin duration_bins[BINS_MAX]; /* seconds */
    double cpu_quantiles[3];            /* where the quarters of CPU seconds part */
    double syscall_share_pct; /* a call that has more of the time of all calls that do not wait */
    size_t group_runs_min;    /* fewer runs tell nothing of a group */

    /* what is found */
    double deviation_min; /* of the failure rate from the overall one; less is dropped */
    /* confidence = min(max, base + share_weight · share + weight · deviation) */
    double confidence_base;
    double confidence_share_weight;
    struct figure_numbers figures[FIGURE_COUNT];
    double kept_confidence_min; /* from it on, it is kept as a pattern */
    double significant_q_max;   /* up to it, it is called significant */

    /* estimates */
    size_t estimate_runs_max;    /* of a type, the latest: a p95 wants many, change wants few */
    double estimate_half_runs;   /* so many runs make half of the confidence there can be */
    double percentile_usual;     /* p50 */
    double percentile_most;      /* p95 */
    double percentile_low;       /* the quarters between which half of the runs lie: */
    double percentile_high;      /* the wider they are apart, the less sure */
    size_t calibration_runs_max; /* all types together, the latest */
};

extern const struct learn_numbers learn_numbers_default;
