/* Correlation: which resource use correlates with failure. Pure: runs in, findings out.
 *
 * Runs of each job type, or of all types together, are grouped by each figure (peak memory, CPU
 * seconds, dominant system call, types of anomalies, duration). Each group is compared with all
 * runs of its type whose figure is known. The confidence of the reference depends only on the size
 * and the deviation of a group. A correlation also has Wilson's interval, the p-value of Fisher's
 * exact test against the runs outside of the group, and the q-value that corrects it for the number
 * of groups of all types: of a hundred groups, five deviate by chance. */
#pragma once

#include "learn/history.h"
#include "model/analysis.h"

/* Sorts the history, and sets all fields except as_of, since, runs_left_out and the patterns. Lists
 * and texts are allocated in `arena`. Returns 0 or -ENOMEM; *ret is unchanged on failure. */
int correlation_find(struct history *history, int64_t min_sample_size, struct arena *arena,
                     struct analysis *ret);

/* Makes patterns of the correlations with enough confidence, as first seen `now`. They share the
 * texts of the correlations; the list is allocated in `arena`. Returns 0 or -ENOMEM. */
int correlation_patterns(const struct correlation_list *correlations,
                         const struct learn_constants *constants, double now, struct arena *arena,
                         struct pattern_list *ret);
