/* Makes the rows of the table from a frame: jobs with their steps and processes, then the processes
 * of no job; sorted, filtered and folded as the user requests. Pure functions.
 *
 * The key of a row identifies it from frame to frame, even if its position changes. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/map.h"
#include "base/vec.h"
#include "client/feed.h"

enum row_kind {
    ROW_PROCESS,
    ROW_JOB,
    ROW_SHEET,
    ROW_OTHERS, /* the heading of the processes that belong to no job */
};

/* The arrangement of the rows; the key t switches to the next one. */
enum arrangement {
    BY_JOB,  /* jobs, each with its processes sorted by a column */
    AS_TREE, /* the same, but children below their parents */
    AS_LIST, /* all processes sorted by a column */
    ARRANGEMENTS,
};

const char *arrangement_name(enum arrangement arrangement);

#define LISTING_DEPTH_MAX 64

struct row {
    enum row_kind kind;
    uint64_t key;
    const struct process_metric *figures; /* of the process, or sums over the group */
    const struct job_usage *job;          /* the job of the row; NULL: none */
    const struct job_progress *progress;  /* of that job; NULL: unknown */
    int64_t sheet_num;
    size_t processes;            /* number of processes of a group */
    const struct anomaly *alarm; /* its worst open anomaly; NULL: none */
    unsigned depth;              /* in the tree, from 0 */
    uint64_t lines;              /* bit n: the tree line of depth n continues below this row */
    bool has_children;
    bool is_folded;
};

/* A set of row keys, such as the tagged rows. Zero-initialised is empty and valid. */
struct key_set {
    struct map keys;
};

bool key_set_has(const struct key_set *set, uint64_t key);
/* Adds the key, or removes it if it is in the set. Returns 0 or -ENOMEM. */
int key_set_toggle(struct key_set *set, uint64_t key);
void key_set_clear(struct key_set *set);
void key_set_done(struct key_set *set);

struct listing_request {
    enum arrangement arrangement;
    const struct field *sort; /* a field of struct process_metric */
    bool is_ascending;        /* reverses the usual order */
    const char *filter;       /* shows rows that row_matches() this; "": all */
    const struct key_set *folded;
};

struct listing {
    struct VEC(struct row) rows;
    const struct frame *frame; /* the frame of the rows; NULL: none yet */
    size_t shown_processes;    /* number of processes that pass the filter */
    size_t steps;              /* number of steps with such a process */
    struct listing_work *work; /* reused for each frame, to avoid allocations */
};

/* Replaces the rows. They point into the frame, which must outlive them. Returns 0 or -ENOMEM. */
int listing_build(struct listing *listing, const struct frame *frame,
                  const struct listing_request *request);
void listing_done(struct listing *listing);

/* The keys of rows. */
uint64_t listing_process_key(const struct process_metric *process);
uint64_t listing_job_key(const char *run_id, const char *job_id);
uint64_t listing_sheet_key(uint64_t job_key, int64_t sheet_num);

/* Whether a row matches a filter or a search: the text is a part of the command or the job's name,
 * ignoring case, or is the pid. Empty: every process matches. */
bool row_matches(const struct row *row, const char *text);
