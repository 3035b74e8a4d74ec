/* Whether a job may start, where no daemon knows what jobs use: judged by the machine's memory
 * alone. Pure. */
#pragma once

#include "detect/pressure.h"

/* `snapshot` needs the machine's figures only; NULL: it could not be read, which refuses.
 * `estimate` is that of its type; NULL, or without enough confidence: it does not count. */
void admission_without_daemon(const struct snapshot *snapshot,
                              const struct resource_estimate *estimate, struct admission *ret);
