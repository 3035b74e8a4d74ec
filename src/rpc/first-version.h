/* What version 0.1.0 of the protocol called the figures of a run. Its clients send these names, and
 * its daemons accept no others. */
#pragma once

#include "rpc/method.h"

/* Its names of the figures that job.finish has; NULL ends the list. */
extern const char *const first_version_figures[];
/* Its names of their exactness; the entry without a name ends the list. */
extern const struct rpc_alias first_version_exactness[];
