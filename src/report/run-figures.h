/* CPU time and memory of a run, as the lines that its summary and its report share. */
#pragma once

#include "base/text.h"
#include "model/job.h"

struct run_figures {
    double wall_seconds;
    double cpu_seconds;
    double user_seconds;
    double system_seconds;
    double peak_rss_mb;
    double peak_total_mb;
    double peak_unique_mb;
    int64_t processes;
    struct run_exactness exactness;
};

struct run_figures run_figures_of_summary(const struct run_summary *summary);
struct run_figures run_figures_of_profile(const struct job_profile *profile);

/* Append the value of the line "CPU" or "memory", without the label and without the last newline.
 */
void run_figures_format_cpu(const struct run_figures *figures, struct text *out);
void run_figures_format_memory(const struct run_figures *figures, struct text *out);
