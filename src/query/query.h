/* Queries on stored data, for the verbs and for the daemon. They print nothing and place their
 * results in `arena`. Each returns 0 or a negative errno. store_reader_error() describes errors of
 * the store; -ENOENT and -ENODATA mean what the contracts below state. The duration of a run that
 * is still running is counted until `now`. */
#pragma once

#include "model/analysis.h"
#include "model/calibration.h"
#include "model/estimate.h"
#include "report/job-report.h"
#include "report/machine-report.h"
#include "store/store.h"

/* Finds a run. `name` is JOB (its latest run), JOB~1 (the run before) or a run_id; NULL: the latest
 * run of all jobs. -ENOENT: no such run. */
int query_job(struct store_reader *reader, const char *name, double now, struct arena *arena,
              struct job *ret);

/* Lists the runs that match, latest first. */
int query_jobs(struct store_reader *reader, const struct job_filter *filter, double now,
               struct arena *arena, struct job_list *ret);

/* Lists the events that match, oldest first. `job` names one run as in query_job(); NULL: events of
 * all runs. -ENOENT: no such run. */
int query_events(struct store_reader *reader, const char *job, const struct event_filter *filter,
                 struct arena *arena, struct process_event_list *ret);

/* Makes the report of a run; `name` and -ENOENT as in query_job(). Of the runs that were started
 * in this run, the report lists those of the user `viewer` (INT_UNKNOWN: all). Earlier runs, which
 * it compares with, are those of the owner of this run. */
int query_job_report(struct store_reader *reader, const char *name, int64_t viewer, double now,
                     struct arena *arena, struct job_report *ret);

/* Makes the report of the whole machine from `since` to `until`. */
int query_machine_report(struct store_reader *reader, double since, double until, double now,
                         struct arena *arena, struct machine_report *ret);

/* Estimates what the next run of a type will need from its latest finished runs, those of the user
 * `uid` or of all users (INT_UNKNOWN). -ENODATA: there are no such runs. */
int query_estimate(struct store_reader *reader, const char *job_type, int64_t uid,
                   struct arena *arena, struct resource_estimate *ret);

/* Counts how often such estimates would have held: for one type or for all (`job_type` NULL). The
 * type with the most runs comes first. */
int query_calibration(struct store_reader *reader, const char *job_type, int64_t uid,
                      struct arena *arena, struct calibration_list *ret);

struct analysis_request {
    double now;
    int64_t min_sample_size;
    const char *job_type; /* only runs of this type; NULL: of all */
    bool all_types;       /* compare runs of different types, too */
    int64_t uid;          /* only runs of this user; INT_UNKNOWN: of all users */
};

/* Patterns that the caller must store after an analysis: see store_renew_patterns(). */
struct pattern_renewal {
    bool is_due; /* false: the stored patterns stay as they are */
    struct pattern_list patterns;
};

/* Finds resource use that goes with failure in the runs of the last seven days. If the request
 * covers all runs, the result contains all stored patterns as they are after the renewal. If it
 * covers one type or one user, the result contains only the patterns of these runs, and
 * *ret_renewal is not due. */
int query_analysis(struct store_reader *reader, const struct analysis_request *request,
                   struct arena *arena, struct analysis *ret, struct pattern_renewal *ret_renewal);
