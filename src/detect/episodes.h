/* The second stage: findings of consecutive snapshots become episodes, which open once, are
 * reported again when they get worse, and clear once.
 *
 * Findings of one kind in one run are one episode, as are zombies below sonde without a run;
 * otherwise an episode is about one process, or the machine. Its members are the processes that
 * fired in it. A member leaves when it is gone or has not fired for a while; the episode clears
 * with the last one.
 *
 * The identity of an episode (time of opening, kind, pid and run) never changes. */
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
    uint64_t
        clear_ns; /* a member that has not fired for this long, and for quiet_snapshots, leaves */
    struct episode_queue by_age; /* oldest first; with cleared ones until they are reported */
    struct episode_queue folded; /* open ones of runs, and of zombies below sonde */
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
    const struct process_histories
        *processes;                    /* the living processes, and the number of the snapshot */
    const struct job_usage_list *jobs; /* for the owners of runs */
    uint64_t now_ns;
    double timestamp;
};

/* 0, or -ENOMEM: then some findings may be ignored. */
int episodes_apply(struct episodes *episodes, const struct episodes_input *input);

/* Lists what was not reported yet: openings, changes, clearings. On -ENOMEM `ret` is empty, and the
 * next call reports all of it. */
int episodes_report(struct episodes *episodes, struct arena *arena, struct anomaly_list *ret);

/* 0 or -ENOMEM. */
int episodes_list_open(const struct episodes *episodes, struct arena *arena,
                       struct anomaly_list *ret);
bool episodes_have(const struct episodes *episodes, int64_t pid, uint64_t start_ticks);
/* The episodes of the run clear at the next episodes_apply(). */
void episodes_end_run(struct episodes *episodes, const char *run_id);
