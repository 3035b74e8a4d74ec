/* Answers the queries of verbs: from the daemon, or without one from the user's own database. Both
 * give the same answers.
 *
 * If the daemon fails (it hangs, has another version, or returns less at once than requested), the
 * reader queries the own database instead. It also searches there for runs that the daemon does not
 * know, from a time before there was a daemon. reader_note() reports such a fallback. */
#pragma once

#include "client/client.h"
#include "query/query.h"

struct reader;

enum reader_source {
    READER_DAEMON,
    READER_STORE,
};

struct reader_options {
    const char *const *socket_paths; /* NULL: no daemon */
    const char *database_path;       /* NULL: there is none */
};

struct reader_error {
    char text[512];
};

/* Connects to the daemon, or opens the database if there is no daemon. Returns 0, -ENOENT (neither
 * exists) or another negative errno, with a message. */
int reader_open(const struct reader_options *options, struct reader **ret,
                struct reader_error *error);
void reader_close(struct reader *reader);
void reader_closep(struct reader **reader);

/* The source of the last answer; before the first query, the source that it will use. */
enum reader_source reader_source(const struct reader *reader);
/* The path of the socket or database of that source; NULL: the daemon failed, and there is no
 * database. */
const char *reader_place(const struct reader *reader);
/* Whether that source contains only the jobs of this user: it is a daemon that hides the others. */
bool reader_sees_only_own(const struct reader *reader);
/* The message of the last error. */
const char *reader_strerror(const struct reader *reader);
/* Why the last answer came from the database instead of the daemon; NULL: it did not. */
const char *reader_note(const struct reader *reader);

/* Why this user cannot connect to a daemon that may be running; NULL: there is no such daemon. */
const char *reader_daemon_error(const struct reader *reader);

/* These work as the functions of query.h. -EPERM: the run belongs to another user. */
int reader_jobs(struct reader *reader, const struct job_filter *filter, double now,
                struct arena *arena, struct job_list *ret);
int reader_events(struct reader *reader, const char *job, const struct event_filter *filter,
                  struct arena *arena, struct process_event_list *ret);
int reader_job_report(struct reader *reader, const char *name, double now, struct arena *arena,
                      struct job_report *ret);
int reader_machine_report(struct reader *reader, double since, double until, double now,
                          struct arena *arena, struct machine_report *ret);
/* *ret_renewal is set only if the own database answered; a daemon stores its findings itself. */
int reader_analysis(struct reader *reader, const struct analysis_request *request,
                    struct arena *arena, struct analysis *ret, struct pattern_renewal *ret_renewal);
int reader_estimate(struct reader *reader, const char *job_type, struct arena *arena,
                    struct resource_estimate *ret);
int reader_calibration(struct reader *reader, const char *job_type, struct arena *arena,
                       struct calibration_list *ret);
/* Finds the job, among the latest runs, whose name is most similar to `name`, for a suggestion;
 * NULL: none is similar. Placed in `arena`. Returns 0 or a negative errno. */
int reader_similar_job(struct reader *reader, const char *name, struct arena *arena,
                       const char **ret);
/* The same for the type of a job. */
int reader_similar_type(struct reader *reader, const char *job_type, struct arena *arena,
                        const char **ret);
