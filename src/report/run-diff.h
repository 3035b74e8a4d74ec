/* RunDiff: two runs side by side. Pure functions. */
#pragma once

#include "report/job-report.h"

struct figure_pair {
    const char *figure; /* the field's first name */
    double left;
    double right;
    double difference; /* right - left */
    double ratio;      /* right / left; unknown if left is 0 */
};

struct figure_pair_list LIST(struct figure_pair);

/* A step of either run. */
struct sheet_pair {
    int64_t sheet_num;
    const char *name;
    int left_outcome; /* enum outcome; 0: there is no such step */
    int right_outcome;
    double left_wall_seconds;
    double right_wall_seconds;
    double left_peak_rss_mb;
    double right_peak_rss_mb;
};

struct sheet_pair_list LIST(struct sheet_pair);

/* A system call's share of the time. */
struct call_pair {
    const char *name;
    double left_pct;
    double right_pct;
};

struct call_pair_list LIST(struct call_pair);

struct run_diff {
    double as_of;
    struct job left;
    struct job right;
    struct figure_pair_list figures;
    struct sheet_pair_list sheets;
    struct call_pair_list syscalls;  /* the largest difference first */
    struct text_list left_anomalies; /* their types, each once */
    struct text_list right_anomalies;
};

extern const struct record run_diff_record;
extern const struct record figure_pair_record;

/* Compares two reports. The result points into both; its lists are placed in `arena`. Returns 0 or
 * -ENOMEM. */
int run_diff_make(const struct job_report *left, const struct job_report *right,
                  struct arena *arena, struct run_diff *ret);

/* Writes the comparison as text. Returns 0 or -ENOMEM, which is also the buffer's error. */
int run_diff_format(const struct run_diff *diff, const struct report_style *style,
                    struct text *out);
