/* Analyses finished runs once per interval in a query thread, first after one interval. A failure
 * is logged and counted; the next analysis runs when it is due. */
#pragma once

#include "daemon/query-thread.h"

struct periodic_analysis;

struct periodic_analysis_options {
    struct query_thread *thread;
    uint64_t every_ms;
    int64_t min_sample_size;
};

struct periodic_analysis_counts {
    uint64_t done;
    uint64_t failed;
    double last_at;         /* when the last one finished; REAL_UNKNOWN: none */
    const char *last_error; /* of the last one; NULL: it succeeded */
};

/* Starts the timer. Returns 0 or -ENOMEM. */
int periodic_analysis_start(uv_loop_t *loop, const struct periodic_analysis_options *options,
                            struct periodic_analysis **ret);
/* Changes the settings. A new interval begins now. */
void periodic_analysis_configure(struct periodic_analysis *analysis, uint64_t every_ms,
                                 int64_t min_sample_size);
void periodic_analysis_counts(const struct periodic_analysis *analysis,
                              struct periodic_analysis_counts *ret);
/* Closes the timer; the memory is freed when the pending query is done. Call it before
 * query_thread_stop(). NULL is allowed. */
void periodic_analysis_close(struct periodic_analysis *analysis);

/* Runs in the query thread: analyses what the peer may see and writes the answer. If the peer sees
 * everything, the findings go to the store's writer. */
void periodic_analysis_execute(struct query *query);
