/* Queries on stored data, for the verbs and for the daemon. Nothing is
 * printed; results are placed in `arena`. All return 0 or a negative errno, in which case
 * store_reader_error() has the words, except as said. */
#pragma once

#include "model/analysis.h"
#include "model/calibration.h"
#include "model/estimate.h"
#include "report/job-report.h"
#include "report/machine-report.h"
#include "store/store.h"

/* A run that goes on has lasted until `now`. */

/* `name` is JOB, JOB~1 or a run_id; NULL: the latest run. -ENOENT: no such run. */
int query_job(struct store_reader *reader, const char *name, double now, struct arena *arena,
              struct job *ret);

/* Latest first. */
int query_jobs(struct store_reader *reader, const struct job_filter *filter, double now,
               struct arena *arena, struct job_list *ret);

/* Oldest first. Of one run, if `job` is not NULL; named and refused as above. */
int query_events(struct store_reader *reader, const char *job, const struct event_filter *filter,
                 struct arena *arena, struct process_event_list *ret);

/* Named and refused as above. Other runs in it, within it or before it, are those that the user
 * `viewer` may see: its own; INT_UNKNOWN: all. */
int query_job_report(struct store_reader *reader, const char *name, int64_t viewer, double now,
                     struct arena *arena, struct job_report *ret);

int query_machine_report(struct store_reader *reader, double since, double until, double now,
                         struct arena *arena, struct machine_report *ret);

/* What the next run of a type will need, by its latest finished ones; by those of one user (`uid`
 * known) or of all. -ENODATA: there are none. */
int query_estimate(struct store_reader *reader, const char *job_type, int64_t uid,
                   struct arena *arena, struct resource_estimate *ret);

/* How often such estimates would have held, by type, or of one; the most runs first. */
int query_calibration(struct store_reader *reader, const char *job_type, int64_t uid,
                      struct arena *arena, struct calibration_list *ret);

struct analysis_request {
    double now;
    int64_t min_sample_size;
    const char *job_type; /* NULL: runs of all types */
    int64_t uid;          /* whose; INT_UNKNOWN: everybody's */
};

/* What an analysis leaves to be stored: see store_renew_patterns(). */
struct pattern_renewal {
    bool is_due; /* else what is stored stays as it is */
    struct pattern_list patterns;
};

/* Which resource use goes with failure, by the runs of the last seven days. Its patterns are all
 * that are stored, as they will be after the renewal; of some runs only (of a type or a user),
 * those that they show, which are not to be stored. */
int query_analysis(struct store_reader *reader, const struct analysis_request *request,
                   struct arena *arena, struct analysis *ret, struct pattern_renewal *ret_renewal);
