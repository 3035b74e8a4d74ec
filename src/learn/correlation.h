/* Which resource use goes with failure. Pure: runs in, findings out.
 *
 * Runs are grouped by each figure (peak memory, CPU seconds, the system call that dominates, types
 * of anomalies, duration), and each group is held against all runs of which the figure is known.
 * Beside the reference's confidence, which only looks at how large and how far off a group is,
 * stand Wilson's interval, Fisher's exact test against the runs outside of the group, and what is
 * left of that when all groups that were looked at are counted: of a hundred groups, five deviate
 * by chance. */
#pragma once

#include "learn/history.h"
#include "model/analysis.h"

/* Fills all but as_of, since, runs_left_out and the patterns. What it says is placed in `arena`. 0
 * or -ENOMEM. */
int correlation_find(const struct history *history, int64_t min_sample_size, struct arena *arena,
                     struct analysis *ret);

/* Those that are worth keeping, as patterns seen `now` for the first time. 0 or -ENOMEM. */
int correlation_patterns(const struct correlation_list *correlations,
                         const struct learn_numbers *numbers, double now, struct arena *arena,
                         struct pattern_list *ret);
