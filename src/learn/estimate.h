/* What the next run of a job type will need, out of its finished runs. Pure. */
#pragma once

#include "model/estimate.h"
#include "model/job.h"

/* Of finished runs of one type; those that go on, and those that were lost, are left out. 0,
 * -ENODATA (no run to learn from) or -ENOMEM.
 *
 * Percentiles are interpolated (stats/quantile.h). Memory is that of all processes together, as
 * admission counts it: the largest unique sum, and no less than the largest process.
 *
 * A run that was killed for memory is a lower bound, not a data point: it is left out of all
 * percentiles, but where it is above a p95, it is that p95. If there are only such runs, p50 is
 * unknown, sample_size 0 and confidence 0. */
int estimate_make(const struct job_list *runs, struct resource_estimate *ret);
