/* Answers to questions, from wherever they can be had: from the daemon, or without one from the own
 * database. The same question gets the same answer from both.
 *
 * Where a daemon fails (it hangs, is of another version, or answers less at once than is asked for)
 * the own database is asked instead, and what the daemon knows nothing of is looked for there, too:
 * runs of a time before there was a daemon. reader_note() tells when it came to that. */
#pragma once

#include "client/client.h"
#include "query/query.h"

struct reader;

enum reader_source {
    READER_DAEMON,
    READER_STORE,
};

struct reader_options {
    const char *const *socket_paths; /* NULL: do not look for a daemon */
    const char *database_path;       /* NULL: there is none */
};

struct reader_error {
    char text[512];
};

/* The first that can be opened. 0, -ENOENT (no daemon, and no database) or another negative errno,
 * with words. */
int reader_open(const struct reader_options *options, struct reader **ret,
                struct reader_error *error);
void reader_close(struct reader *reader);
void reader_closep(struct reader **reader);

/* Who answered the last question, or will answer the first. */
enum reader_source reader_source(const struct reader *reader);
/* The socket or the database that answers. NULL: neither can any more. */
const char *reader_place(const struct reader *reader);
const char *reader_strerror(const struct reader *reader);
/* Why the last answer came from elsewhere than might be expected, in words; NULL: it did not. */
const char *reader_note(const struct reader *reader);

/* A daemon that is there and could not be asked, in words; NULL: there is none of the kind. */
const char *reader_unasked(const struct reader *reader);

/* As those of query.h; -EPERM: it is another user's. */
int reader_jobs(struct reader *reader, const struct job_filter *filter, double now,
                struct arena *arena, struct job_list *ret);
int reader_events(struct reader *reader, const char *job, const struct event_filter *filter,
                  struct arena *arena, struct process_event_list *ret);
int reader_job_report(struct reader *reader, const char *name, double now, struct arena *arena,
                      struct job_report *ret);
int reader_machine_report(struct reader *reader, double since, double until, double now,
                          struct arena *arena, struct machine_report *ret);
/* *ret_renewal is due only if the own database has answered; a daemon sees to it by itself. */
int reader_analysis(struct reader *reader, const struct analysis_request *request,
                    struct arena *arena, struct analysis *ret, struct pattern_renewal *ret_renewal);
/* -ENODATA: there are no finished runs of that type. */
int reader_estimate(struct reader *reader, const char *job_type, struct arena *arena,
                    struct resource_estimate *ret);
int reader_calibration(struct reader *reader, const char *job_type, struct arena *arena,
                       struct calibration_list *ret);
int reader_similar_job(struct reader *reader, const char *name, struct arena *arena,
                       const char **ret);
/* The same for the type of a job. */
int reader_similar_type(struct reader *reader, const char *job_type, struct arena *arena,
                        const char **ret);
