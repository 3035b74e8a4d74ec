/* The figures of a run that are held against those of other runs, in one table. */
#pragma once

#include "base/human.h"
#include "base/text.h"
#include "model/job.h"

enum profile_unit {
    PROFILE_MB,
    PROFILE_SECONDS,
    PROFILE_PERCENT,
    PROFILE_COUNT,
    PROFILE_BYTES,
};

struct profile_figure {
    const char *name;  /* of the field */
    const char *title; /* for people */
    enum profile_unit unit;
    size_t offset; /* in struct job_profile: a double, or an int64_t for what is counted */
    size_t exactness_offset; /* in struct run_exactness; SIZE_MAX: it has none */
    /* Held against earlier runs of the type; a difference of less than this says nothing, however
     * much alike they were. 0: it is not. */
    double worth_telling;
};

const struct profile_figure *profile_figures(size_t *ret_count);

/* REAL_UNKNOWN if it is not known. */
double profile_figure_value(const struct profile_figure *figure, const struct job_profile *profile);
/* "≥ 812.4 MB" */
void profile_figure_append(const struct profile_figure *figure, const struct job_profile *profile,
                           struct text *out);
/* "812.4 MB", of a value that is not a run's own. Returns its buffer's text. */
const char *profile_figure_format(const struct profile_figure *figure, struct human *buffer,
                                  double value);

/* "+21 %", "12 times", "same"; nothing where it cannot be said. Into an empty buffer. */
void difference_append(double value, double usual, struct text *out);
