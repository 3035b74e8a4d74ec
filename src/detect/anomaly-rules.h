/* The first stage of detection: makes findings from a snapshot, the history of its processes and
 * the events since the last snapshot. It makes one pass over the processes, with one lookup each,
 * and allocates memory only for new processes and findings. */
#pragma once

#include "detect/detect-constants.h"
#include "detect/detector.h"
#include "detect/finding.h"
#include "detect/process-history.h"

struct anomaly_rules {
    struct anomaly_config config;
    struct detect_constants constants;
    uint64_t window_ns;  /* of memory_spike */
    uint64_t runaway_ns; /* of runaway_process */

    uint64_t now_ns;
    bool has_baseline;
    uint64_t baseline_ns; /* time of the last snapshot that is kept for baselines */
    bool is_baseline;     /* the current snapshot is kept as well */

    struct process_histories histories;
    struct leak_scratch scratch;
    struct VEC(const struct process_metric *) zombies; /* of this snapshot, old enough */
    struct finding_list findings;
};

void anomaly_rules_init(struct anomaly_rules *rules, const struct anomaly_config *config,
                        const struct detect_constants *constants);
void anomaly_rules_done(struct anomaly_rules *rules);
void anomaly_rules_configure(struct anomaly_rules *rules, const struct anomaly_config *config);

/* Replaces `rules->findings` by the findings of this snapshot. Returns 0, or -ENOMEM: then some may
 * be missing. */
int anomaly_rules_apply(struct anomaly_rules *rules, const struct detect_input *input);
