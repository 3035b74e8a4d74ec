/* What `sonde run` keeps of its run in the store: the job when it begins and when it has ended, and
 * its step, if it is one. */
#pragma once

#include "run/job-run.h"

/* The command line as that of a process is shown: cut, in UTF-8, its arguments apart by blanks.
 * NULL without memory. */
char *run_record_command(char *const *argv, struct arena *arena);

/* Texts are placed in `arena`. 0 or -ENOMEM. */
int run_record_begin(const struct job_run_options *options, double started_at, struct arena *arena,
                     struct job *ret);

/* The outcome and the figures; texts are the summary's. */
void run_record_end(const struct run_summary *summary, double ended_at, struct job *ret);

/* The step that a run is: when it begins, and when it has ended, with the run's figures. */
void run_record_sheet(const char *run_id, int64_t sheet_num, double started_at, struct sheet *ret);
void run_record_sheet_end(const struct run_summary *summary, double ended_at, struct sheet *ret);

/* Who writes: host, boot, collector, interval. Texts are placed in `arena`. 0 or -ENOMEM. */
int run_record_place(double interval_seconds, const char *collector, struct arena *arena,
                     struct store_options *store);
/* The same for a run, which begins with what any user can read, with the processes that it was
 * started by. */
int run_record_session(const struct job_run_options *options, struct arena *arena,
                       struct store_options *store);
