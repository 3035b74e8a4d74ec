/* The rows of the screen: jobs, their steps and processes, then the processes of no job; sorted,
 * filtered, folded. Pure: a frame and what the user wants in, rows out.
 *
 * A row is known by its key from frame to frame, whatever its place. */
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
    ROW_OTHERS, /* the heading of those that belong to no job */
};

/* How it is arranged; t goes from one to the next. */
enum arrangement {
    BY_JOB,  /* jobs, and in each its processes in the order of a column */
    AS_TREE, /* the same, children below their parents */
    AS_LIST, /* all processes in the order of a column */
    ARRANGEMENTS,
};

const char *arrangement_name(enum arrangement arrangement);

#define LISTING_DEPTH_MAX 64

struct row {
    enum row_kind kind;
    uint64_t key;
    const struct process_metric *figures; /* of the process, or sums over those below */
    const struct job_usage *job;          /* that it is, or is in; NULL: none */
    const struct job_progress *progress; /* of a job, or of the one that a step is of; NULL: none */
    int64_t sheet_num;
    size_t processes;            /* of a job, a step or the others: how many */
    const struct anomaly *alarm; /* the worst open episode of it; NULL: none */
    unsigned depth;              /* in the tree, from 0 */
    uint64_t lines;              /* bit n: the line of depth n goes on below this row */
    bool has_children;
    bool is_folded;
};

/* Keys that the user has marked. Zero-initialised is empty and valid. */
struct key_set {
    struct map keys;
};

bool key_set_has(const struct key_set *set, uint64_t key);
/* Adds it, or takes it out. 0 or -ENOMEM. */
int key_set_toggle(struct key_set *set, uint64_t key);
void key_set_clear(struct key_set *set);
void key_set_done(struct key_set *set);

struct listing_wish {
    enum arrangement arrangement;
    const struct field *sort; /* of a process */
    bool is_ascending;
    const char *filter; /* in a command line, a job or a pid, in any case; "": all */
    const struct key_set *folded;
};

struct listing {
    struct VEC(struct row) rows;
    const struct frame *frame; /* that they are of; NULL: none yet */
    size_t process_count;      /* that there are */
    size_t shown_processes;    /* that the filter lets through */
    struct listing_work *work; /* kept, so that memory settles */
};

/* 0 or -ENOMEM. The rows point into the frame, which must stay. */
int listing_build(struct listing *listing, const struct frame *frame,
                  const struct listing_wish *wish);
void listing_done(struct listing *listing);

uint64_t listing_process_key(const struct process_metric *process);
uint64_t listing_job_key(const char *run_id, const char *job_id);
uint64_t listing_sheet_key(uint64_t job_key, int64_t sheet_num);

/* Whether a text has the words of a filter or a search in it, in any case. */
bool listing_matches(const struct process_metric *process, const char *words);
bool row_matches(const struct row *row, const char *words);
