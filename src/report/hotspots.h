/* Shares of system calls in the time that a run spent in calls that do not wait. */
#pragma once

#include "model/field.h"

/* Returns which percentage of the time in all calls was spent in calls that do not wait. */
double hotspots_busy_percent(const struct tally_list *hotspots);

/* Converts `percent`, the share of a call in the time of all calls, to its share in the time of
 * calls that do not wait. Returns REAL_UNKNOWN for a call that waits. */
double hotspots_share(const char *name, double percent, double busy_percent);
