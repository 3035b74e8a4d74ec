/* The records of a run in the store: the job when it begins and ends, and its step, if it is one.
 */
#pragma once

#include "run/job-run.h"

/* Returns the command line in the form that is shown for processes: truncated, UTF-8, arguments
 * separated by blanks, redacted. It is placed in `arena`; NULL without memory. */
const char *run_record_command(const struct job_run_options *options, struct arena *arena);

/* Makes the job of a run that begins. Texts are placed in `arena`. Returns 0 or -ENOMEM. */
int run_record_begin(const struct job_run_options *options, double started_at, struct arena *arena,
                     struct job *ret);

/* Makes the job of a run that has ended, with outcome and figures; texts are shared with the
 * summary. */
void run_record_end(const struct run_summary *summary, double ended_at, struct job *ret);

/* Make the step that the run is: when it begins, and when it has ended, with the figures of the
 * run.
 */
void run_record_sheet(const char *run_id, int64_t sheet_num, double started_at, struct sheet *ret);
void run_record_sheet_end(const struct run_summary *summary, double ended_at, struct sheet *ret);

/* Fills in host, boot, collector and interval of the session. Texts are placed in `arena`. 0 or
 * -ENOMEM. */
int run_record_place(double interval_seconds, const char *collector, struct arena *arena,
                     struct store_options *store);
/* The same for `sonde run`: with /proc as collector, and with the pids of sonde's ancestors. */
int run_record_session(const struct job_run_options *options, struct arena *arena,
                       struct store_options *store);
