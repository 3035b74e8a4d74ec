/* Detects anomalies in two pure stages. Rules make findings from a snapshot, the history of its
 * processes and the events since the last snapshot. Findings make episodes, which open, change and
 * clear.
 *
 * No clock and no I/O: each snapshot brings its time on the monotonic clock. The history of a
 * process is bounded, and is dropped with the process. docs/ANOMALIES.md describes the rules. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"
#include "model/event.h"
#include "model/snapshot.h"

struct detector;

/* Creates a detector with a copy of the configuration. Returns 0 or -ENOMEM. */
int detector_new(const struct anomaly_config *config, struct detector **ret);
void detector_free(struct detector *detector);

/* Replaces the thresholds; histories and episodes stay. */
void detector_configure(struct detector *detector, const struct anomaly_config *config);
/* Redacts the command lines of open episodes with other words (model/redact.h). New episodes have
 * command lines as the snapshots and events have them. */
void detector_redact(struct detector *detector, const struct text_list *words);

struct detect_input {
    const struct snapshot *snapshot;         /* with all processes */
    uint64_t mono_ns;                        /* when it was taken */
    const struct process_event_list *events; /* since the last one; NULL: none */
};

/* Checks a snapshot. Lists the changes: episodes that opened (is_opening), got worse, or cleared
 * (cleared_at), in this order. `arena` owns the list and its texts. Returns 0, or -ENOMEM: then
 * changes may be missing (`ret` is still valid, perhaps empty), and the next call reports them. The
 * timestamp, anomaly_type, pid and run_id identify an episode from its opening to its clearing. */
int detector_check(struct detector *detector, const struct detect_input *input, struct arena *arena,
                   struct anomaly_list *ret);

/* Lists the open episodes, oldest first. Returns 0 or -ENOMEM. */
int detector_list_open(const struct detector *detector, struct arena *arena,
                       struct anomaly_list *ret);
size_t detector_open_count(const struct detector *detector);

/* Returns whether the process is part of an open episode. */
bool detector_is_in_episode(const struct detector *detector, pid_t pid, uint64_t start_ticks);

/* Call it when a run has ended: its episodes clear at the next check. */
void detector_end_run(struct detector *detector, const char *run_id);
