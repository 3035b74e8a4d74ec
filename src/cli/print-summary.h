/* Prints the short summary of a run on stderr. */
#pragma once

#include "model/job.h"

/* `events_error` is as in short_summary_format(). */
void print_summary(const struct run_summary *summary, int events_error);
