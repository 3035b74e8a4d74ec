/* The short summary of a run, for a person. */
#pragma once

#include "base/text.h"
#include "model/job.h"

/* `no_events` tells why the kernel gave no process events; NULL if it did. */
void short_summary_format(const struct run_summary *summary, const char *no_events,
                          struct text *out);
