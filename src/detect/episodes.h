/* The second stage: findings of one snapshot after the other become episodes, which open once, are
 * told of again when they get worse, and clear once.
 *
 * Findings of one kind in one run are one episode, as are zombies below sonde that are in no run;
 * else an episode is of one process, or of the machine. It has members: what has fired in it. A
 * member leaves when it is gone or has not fired for a while; the episode clears with the last one.
 *
 * What identifies an episode to others (when it opened, its kind, pid and run) stays as it was. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

#include "base/map.h"
#include "base/text.h"
#include "detect/finding.h"
#include "detect/numbers.h"
#include "detect/process-history.h"

struct episode;
TAILQ_HEAD(episode_queue, episode);

struct episodes {
    struct detect_numbers numbers;
    uint64_t clear_ns;           /* without firing, and for quiet_snapshots: a member leaves */
    struct episode_queue by_age; /* the oldest first; the cleared ones until that is told */
    struct episode_queue folded; /* of runs, and of zombies below sonde: those that are open */
    size_t open_count;
    struct map members; /* by pid and kind */
    struct text scratch;
};

void episodes_init(struct episodes *episodes, const struct anomaly_config *config,
                   const struct detect_numbers *numbers);
void episodes_done(struct episodes *episodes);
void episodes_configure(struct episodes *episodes, const struct anomaly_config *config);

struct episodes_input {
    const struct finding_list *findings;
    const struct process_memories *processes; /* who is there; its number of the snapshot counts */
    const struct job_usage_list *jobs;        /* whose runs they are */
    uint64_t now_ns;
    double timestamp;
};

/* 0 or -ENOMEM: then some findings may count for nothing. */
int episodes_apply(struct episodes *episodes, const struct episodes_input *input);

/* What has not been told yet: openings, changes, clearings. On -ENOMEM there is nothing in `ret`,
 * and all of it is told at the next call. */
int episodes_tell(struct episodes *episodes, struct arena *arena, struct anomaly_list *ret);

/* 0 or -ENOMEM. */
int episodes_list_open(const struct episodes *episodes, struct arena *arena,
                       struct anomaly_list *ret);
bool episodes_have(const struct episodes *episodes, int64_t pid, uint64_t start_ticks);
/* Those of the run clear at the next episodes_apply(). */
void episodes_end_run(struct episodes *episodes, const char *run_id);
