/* Prints the short summary of a run on stderr. */
#pragma once

#include "model/job.h"

/* `no_events`: why the kernel gave no process events; NULL if it did. */
void print_summary(const struct run_summary *summary, const char *no_events);
