/* The thresholds of pressure and admission, for pressure.c and admission.c. Parts of
 * docs/ANOMALIES.md and sonde-admit(1) are generated from them. */
#pragma once

#include "base/text.h"
#include "model/estimate.h"
#include "model/snapshot.h"

/* A level begins above this share of the memory limit, or at this PSI value. A step waits for the
 * delay. Without a daemon, all memory of the machine counts in place of the limit. */
struct pressure_threshold {
    double memory_ratio;
    double psi_full_avg10;
    double delay_seconds;
};

extern const struct pressure_threshold pressure_thresholds[PRESSURE_CRITICAL + 1];

/* Above this share of the memory limit, no new job is accepted. */
#define ACCEPT_MEMORY_RATIO 0.85
/* Above this share of the process limit, neither a job nor a step starts. */
#define PROCESS_RATIO 0.8
/* A rejected job waits at least this long, even without pressure. */
#define RETRY_SECONDS 10

/* Appends the table of levels for docs/ANOMALIES.md. */
void pressure_markdown(struct text *out);
/* Append the list of conditions that refuse a new job. It has no markup, so that Markdown and man
 * pages accept it. */
void admission_with_daemon_list(struct text *out);
void admission_without_daemon_list(struct text *out);
