/* The figures of a run that reports and comparisons show: those fields of a profile that have a
 * label. */
#pragma once

#include "base/human.h"
#include "base/text.h"
#include "model/job.h"

/* Returns the next figure after `previous` (NULL: the first); NULL after the last. */
const struct field *profile_figure_next(const struct field *previous);

/* Returns the value of a figure; REAL_UNKNOWN if the run does not have it. */
double profile_figure_value(const struct field *figure, const struct job_profile *profile);
/* Appends the figure of a run: "≥ 812.4 MB". */
void profile_figure_append(const struct field *figure, const struct job_profile *profile,
                           struct text *out);
/* Formats a value that is not a run's own, such as a median: "812.4 MB". Returns the buffer's text.
 */
const char *profile_figure_format(const struct field *figure, struct human *buffer, double value);

/* Returns whether the figure is too small to show: unknown, 0, or bytes that are shown as 0.0 MB.
 */
bool profile_figure_is_zero(const struct field *figure, double value);

/* Writes "+21 %", "12 times" or "same" into an empty buffer; nothing if there is no ratio. */
void difference_append(double value, double usual, struct text *out);
