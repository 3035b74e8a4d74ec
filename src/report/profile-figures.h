/* The figures of a run that are compared with those of other runs, in one table. */
#pragma once

#include "base/human.h"
#include "base/text.h"
#include "model/job.h"

/* The three ways to count the memory of a run, named alike in all output. */
#define LARGEST_PROCESS      "largest process"      /* peak_rss_mb */
#define ALL_PROCESSES        "all processes"        /* peak_total_mb */
#define WITHOUT_SHARED_PAGES "without shared pages" /* peak_unique_mb */

enum profile_unit {
    PROFILE_MB,
    PROFILE_SECONDS,
    PROFILE_CORES, /* stored in percent: 100 is one core */
    PROFILE_COUNT,
    PROFILE_BYTES,
};

/* Figures without an exactness of their own: shown without a mark, or as a lower bound. */
#define FIGURE_UNMARKED    SIZE_MAX
#define FIGURE_LOWER_BOUND (SIZE_MAX - 1)

struct profile_figure {
    const char *name;  /* of the field */
    const char *title; /* as shown */
    enum profile_unit unit;
    size_t offset;           /* in struct job_profile: a double; an int64_t for counts and bytes */
    size_t exactness_offset; /* in struct run_exactness, or FIGURE_UNMARKED or FIGURE_LOWER_BOUND */
    /* Smaller differences from earlier runs of the type are never unusual. 0: the figure is not
     * compared with earlier runs. */
    double min_difference;
};

/* Returns the table. */
const struct profile_figure *profile_figures(size_t *ret_count);

/* Returns the value of a figure; REAL_UNKNOWN if the run does not have it. */
double profile_figure_value(const struct profile_figure *figure, const struct job_profile *profile);
/* Appends the figure of a run: "≥ 812.4 MB". */
void profile_figure_append(const struct profile_figure *figure, const struct job_profile *profile,
                           struct text *out);
/* Formats a value that is not a run's own, such as a median: "812.4 MB". Returns the buffer's text.
 */
const char *profile_figure_format(const struct profile_figure *figure, struct human *buffer,
                                  double value);

/* Returns whether the figure is too small to show: unknown, 0, or bytes that are shown as 0.0 MB.
 */
bool profile_figure_is_zero(const struct profile_figure *figure, double value);

/* Writes "+21 %", "12 times" or "same" into an empty buffer; nothing if there is no ratio. */
void difference_append(double value, double usual, struct text *out);
