/* CPU time and memory of a run, as the lines that its summary and its report share. */
#pragma once

#include "base/text.h"
#include "model/job.h"

/* Append the value of the line "CPU" or "memory", without the label and without the last newline.
 */
void run_figures_format_cpu(const struct job_profile *profile, struct text *out);
void run_figures_format_memory(const struct job_profile *profile, struct text *out);
