/* The share of each system call in the time of all calls that do not wait. */
#pragma once

#include "model/field.h"

/* The percentage of the time that was not spent in waiting calls; 0 if all of it was. */
double hotspots_busy_percent(const struct tally_list *hotspots);

/* The share of a call of `percent` in that time; REAL_UNKNOWN for a waiting call. */
double hotspots_share(const char *name, double percent, double busy_percent);
