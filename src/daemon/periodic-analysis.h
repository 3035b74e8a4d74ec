/* Analyses finished runs once an interval, the first time after one, in the asker's thread. One
 * that fails is told of and counted, and the next one comes when it is due. */
#pragma once

#include "daemon/query-thread.h"

struct periodic_analysis;

struct periodic_analysis_options {
    struct query_thread *asker;
    uint64_t every_ms;
    int64_t min_sample_size;
};

struct periodic_analysis_counts {
    uint64_t done;
    uint64_t failed;
    double last_at;         /* of the last that was done; REAL_UNKNOWN: there is none */
    const char *last_error; /* of the last one, if it failed; NULL: it did not */
};

/* 0 or -ENOMEM. */
int periodic_analysis_start(uv_loop_t *loop, const struct periodic_analysis_options *options,
                            struct periodic_analysis **ret);
/* The asker stays; an interval that has changed begins now. */
void periodic_analysis_configure(struct periodic_analysis *analyst, uint64_t every_ms,
                                 int64_t min_sample_size);
void periodic_analysis_counts(const struct periodic_analysis *analyst,
                              struct periodic_analysis_counts *ret);
/* It is gone once the asker has no question of its own any more: before query_thread_stop(). NULL
 * is fine.
 */
void periodic_analysis_close(struct periodic_analysis *analyst);

/* In the asker's thread: an analysis of what the peer may see, written as the answer; what it found
 * is handed to the store's writer if that was everything. */
void periodic_analysis_ask(struct question *question);
