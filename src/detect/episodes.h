/* The second stage of detection: findings of consecutive snapshots become episodes. An episode
 * opens once, is reported again when it gets worse, and clears once.
 *
 * Findings of one kind in one run share one episode, and so do zombies below sonde without a run.
 * Any other episode is about one process, or the machine. The members of an episode are the
 * processes for which its rule has fired. A member leaves when it is gone or when the rule has not
 * fired for a while; the episode clears when its last member leaves.
 *
 * The identity of an episode (time of opening, kind, pid and run) never changes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

#include "base/map.h"
#include "base/text.h"
#include "detect/detect-constants.h"
#include "detect/finding.h"
#include "detect/process-history.h"

struct episode;
TAILQ_HEAD(episode_queue, episode);

struct episodes {
    struct detect_constants constants;
    uint64_t clear_ns; /* a member leaves after this time, and quiet_snapshots, without firing */
    struct episode_queue by_age; /* oldest first; includes cleared ones until they are reported */
    struct episode_queue folded; /* open episodes that several processes share */
    size_t open_count;
    struct map members; /* by pid and kind */
    struct text scratch;
};

void episodes_init(struct episodes *episodes, const struct anomaly_config *config,
                   const struct detect_constants *constants);
void episodes_done(struct episodes *episodes);
void episodes_configure(struct episodes *episodes, const struct anomaly_config *config);
/* Redacts the command lines of open episodes with other words. */
void episodes_redact(struct episodes *episodes, const struct text_list *words);

struct episodes_input {
    const struct finding_list *findings;
    const struct process_histories *processes; /* living ones, and the snapshot's number */
    const struct job_usage_list *jobs;         /* for the owners of runs */
    uint64_t now_ns;
    double timestamp;
};

/* Opens, updates and clears episodes. Returns 0, or -ENOMEM: then some findings may be ignored. */
int episodes_apply(struct episodes *episodes, const struct episodes_input *input);

/* Lists the openings, changes and clearings that were not reported yet. Returns 0, or -ENOMEM: then
 * `ret` is empty, and the next call reports all of them. */
int episodes_report(struct episodes *episodes, struct arena *arena, struct anomaly_list *ret);

/* Lists the open episodes, oldest first. Returns 0 or -ENOMEM. */
int episodes_list_open(const struct episodes *episodes, struct arena *arena,
                       struct anomaly_list *ret);
/* Returns whether the process is a member of an open episode. */
bool episodes_have(const struct episodes *episodes, int64_t pid, uint64_t start_ticks);
/* Call it when a run has ended: its episodes clear at the next episodes_apply(). */
void episodes_end_run(struct episodes *episodes, const char *run_id);
