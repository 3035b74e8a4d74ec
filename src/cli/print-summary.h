/* Prints the short summary of a run on stderr. */
#pragma once

#include "model/job.h"

/* `events_error` as in short_summary_format(). Errors of stderr are ignored. */
void print_summary(const struct run_summary *summary, int events_error);
