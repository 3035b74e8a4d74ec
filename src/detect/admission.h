/* Admission without a daemon: whether a job may start, by the machine's memory alone; and which
 * estimates admission uses, with a daemon and without one. Pure. */
#pragma once

#include "detect/pressure.h"

/* Decides whether a job may start. `snapshot` needs only the machine's figures; NULL means that
 * they could not be read, and the job is rejected. `estimate` is that of the job's type; it is
 * ignored if it is NULL or has too little confidence. */
void admission_without_daemon(const struct snapshot *snapshot,
                              const struct resource_estimate *estimate, struct admission *ret);

/* Returns whether the estimate has enough confidence for admission. */
bool admission_uses_estimate(const struct resource_estimate *estimate);
