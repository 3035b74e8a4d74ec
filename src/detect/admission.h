/* Admission without a daemon: whether a job may start, by the machine's memory alone. Pure. */
#pragma once

#include "detect/pressure.h"

/* `snapshot` needs only the machine's figures; NULL: they could not be read, which refuses.
 * `estimate` is that of the job's type; NULL, or with too little confidence: ignored. */
void admission_without_daemon(const struct snapshot *snapshot,
                              const struct resource_estimate *estimate, struct admission *ret);
