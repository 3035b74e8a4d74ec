/* Figures of the data model as text: "-" if unknown. Any value is safe, also one from a damaged
 * database. Each function returns its buffer's text. */
#pragma once

#include <stdint.h>

#include "base/human.h"
#include "model/field.h"

/* Returns the mark before a figure: "" if exact, "~ " if sampled, "≥ " for a lower bound and for a
 * figure of unknown exactness, such as that of a run that has not ended. */
const char *exactness_mark(int exactness);
/* The same for this figure: "" if it is unknown. */
const char *figure_mark(double figure, int exactness);

const char *figure_duration(struct human *buffer, double seconds);
const char *figure_count(struct human *buffer, int64_t count);
const char *figure_tally(struct human *buffer,
                         double count); /* a count that is stored as a double */
/* A smaller amount is shown as 0.0 MB. */
#define SHOWN_MIN_BYTES (0.05 * BYTES_PER_MB)
const char *figure_bytes(struct human *buffer, int64_t bytes);
/* "1.20 to 1.40 GB"; one figure if both ends are printed alike, or the lower one is unknown. */
const char *figure_mb_range(struct human *buffer, double min_mb, double max_mb);
const char *figure_percent(struct human *buffer, double percent);
const char *figure_cores(struct human *buffer, double cpu_percent); /* "0.43 cores" for 43 % */
const char *figure_pid(struct human *buffer, int64_t pid);          /* "-" for 0 */

/* "SIGTERM", or "signal 42". */
const char *figure_signal(struct human *buffer, int64_t number);

/* Local time. The first two include the date only if it differs from that of `day`. */
/* 14:03:22, "Jul 13 14:03" or "2025-07-13 14:03" */
const char *figure_clock(struct human *buffer, double epoch, double day);
/* 14:03:22.418, "Jul 13 14:03:22.418" or "2025-07-13 14:03:22.418" */
const char *figure_clock_ms(struct human *buffer, double epoch, double day);
const char *figure_moment(struct human *buffer, double epoch); /* 2026-07-14 14:03:22 +0200 */
