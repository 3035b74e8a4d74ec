/* Reads the frames of a replay from the database. A frame is a stored snapshot with the anomalies
 * that were open and the progress of its runs. If several writers stored at the same time (several
 * `sonde run`), it also contains the last snapshots of the other writers. */
#pragma once

#include "base/vec.h"
#include "client/feed.h"
#include "store/store.h"

/* The stored steps of a run. */
struct kept_run {
    const char *run_id;
    int64_t total_sheets;
    struct sheet_list sheets;
};

/* Zero-initialised but for `store` and `since`. */
struct history_frames {
    struct store_reader *store;             /* owned */
    double since;                           /* earlier data is not read */
    struct VEC(struct snapshot_mark) marks; /* one per frame, oldest first */
    struct anomaly_list anomalies;          /* oldest first */
    struct arena arena;                     /* holds the anomalies */
    struct VEC(struct kept_run) runs;
    struct arena runs_arena;
};

void history_frames_done(struct history_frames *frames);

/* Appends the marks that were stored since the last call; *ret_added is their number. Returns 0 or
 * a negative errno. */
int history_frames_read_marks(struct history_frames *frames, size_t *ret_added);
/* Reads all anomalies again. Returns 0, or a negative errno and keeps the previous ones. */
int history_frames_read_anomalies(struct history_frames *frames);

double history_frames_time_at(const struct history_frames *frames, size_t position);
/* The position of the first frame at or after that time, or of the last one. There must be one. */
size_t history_frames_find(const struct history_frames *frames, double time);

/* Reads the frame at a position, with only this job (NULL: all); the caller frees it with
 * frame_done(). Returns 0, -ENOENT (deleted by retention meanwhile) or another negative errno. */
int history_frames_read(struct history_frames *frames, size_t position, const char *job,
                        struct frame *ret);
