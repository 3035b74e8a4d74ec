/* The short summary of a run, on stderr, for a person. */
#pragma once

#include "model/job.h"

/* `no_events` tells why the kernel gave no process events; NULL if it did. */
void print_summary(const struct run_summary *summary, const char *no_events);
