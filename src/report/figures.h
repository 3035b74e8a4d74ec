/* Figures of the data model as a person reads them: "-" for what is unknown, and nothing that a
 * damaged database may hold is out of bounds. Each returns its buffer's text. */
#pragma once

#include <stdint.h>

#include "base/human.h"

/* What stands before a figure that is not exact. One of which nobody says so, as of a run that
 * still goes on, is a lower bound. */
const char *exactness_mark(int exactness);

const char *figure_duration(struct human *buffer, double seconds);
const char *figure_count(struct human *buffer, int64_t count);
const char *figure_tally(struct human *buffer, double count);
const char *figure_bytes(struct human *buffer, int64_t bytes);
const char *figure_percent(struct human *buffer, double percent);
const char *figure_pid(struct human *buffer, int64_t pid); /* 0 is none */

/* "SIGTERM", or "signal 42". */
const char *figure_signal(struct human *buffer, int64_t number);

/* Local time. The first two have a date only if it is not that of `day`: 14:03:22, Jul 13 14:03 and
 * 2025-07-13 14:03; 14:03:22.418, Jul 13 14:03:22.418 and 2025-07-13 14:03:22.418. */
const char *figure_clock(struct human *buffer, double epoch, double day);
const char *figure_clock_ms(struct human *buffer, double epoch, double day);
const char *figure_moment(struct human *buffer, double epoch); /* 2026-07-14 14:03:22 +0200 */
