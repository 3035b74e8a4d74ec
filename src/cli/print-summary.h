/* The short summary of a run, on stderr, for a person. */
#pragma once

#include "base/text.h"
#include "model/job.h"

void format_summary(const struct run_summary *summary, struct text *out);
void print_summary(const struct run_summary *summary);
