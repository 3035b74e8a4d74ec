/* The first stage: a snapshot, what is remembered of earlier ones and the events since give
 * findings. One pass over the processes, one look-up for each; nothing is allocated while nothing
 * is new. */
#pragma once

#include "detect/detector.h"
#include "detect/finding.h"
#include "detect/numbers.h"
#include "detect/process-history.h"

struct anomaly_rules {
    struct anomaly_config config;
    struct detect_numbers numbers;
    uint64_t window_ns;  /* of memory_spike */
    uint64_t runaway_ns; /* of runaway_process */

    uint64_t now_ns;
    bool has_remembered;
    uint64_t remembered_ns; /* the last snapshot that baselines are taken from */
    bool is_remembered;     /* the current one is, too */

    struct process_memories memories;
    struct leak_scratch scratch;
    struct VEC(const struct process_metric *) zombies; /* of this snapshot, that have lasted */
    struct finding_list findings;
};

void anomaly_rules_init(struct anomaly_rules *rules, const struct anomaly_config *config,
                        const struct detect_numbers *numbers);
void anomaly_rules_done(struct anomaly_rules *rules);
void anomaly_rules_configure(struct anomaly_rules *rules, const struct anomaly_config *config);

/* Leaves what fires in `rules->findings`. 0 or -ENOMEM: then some may be missing. */
int anomaly_rules_apply(struct anomaly_rules *rules, const struct detect_input *input);
