/* What sonde remembers: one interface for those who write and those who ask.
 *
 * The embedded store is a SQLite database, and beside it, if wanted, a JSONL log of snapshots; no
 * caller sees either. A writer (the daemon, a `sonde run`) opens a session, in which its samples
 * are deltas of one another; several may write to one database at once, and readers block nobody.
 * docs/SCHEMA.md describes what lies underneath.
 *
 * A handle belongs to one thread. Calls are synchronous and may wait for the disk or for another
 * writer: whoever must not wait uses writer/store-writer. All return 0 or a negative errno: -ENOSPC
 * (the disk is full), -EBUSY (another writer held the database too long), -EBADMSG (the database is
 * damaged), others as they come. What failed is not half there: each call is one transaction. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/uuid.h"
#include "config/config.h"
#include "model/job.h"
#include "model/machine-use.h"
#include "model/pattern.h"
#include "model/run-digest.h"
#include "model/snapshot.h"
#include "model/tick.h"

/* What went wrong, in words that name the file, the cause and the fix; no newline. */
struct store_error {
    char text[512];
};

/* ---- writing ---- */

struct store;

#define STORE_ANCESTORS_MAX 32

struct store_options {
    const char *path;
    const char *jsonl_path; /* NULL or empty: none is written */
    int64_t jsonl_max_bytes;
    const struct text_list *redact; /* words whose values are hidden; NULL: none. Must outlive it */
    struct retention_config retention;

    /* the session */
    const char *host;
    const char *boot_id;
    const char *collector;
    double interval_seconds;
    bool stays; /* a daemon, with many runs: what grows is written now and then, the log is kept
                   short */
    /* Processes that the writer was started by, nearest first: a run of one of them is the parent
     * of the runs that begin here. */
    int64_t ancestors[STORE_ANCESTORS_MAX];
    size_t ancestor_count;

    /* Asked while a call waits for another writer, and between the steps of retention: whether to
     * give up. NULL: never. */
    bool (*should_stop)(void *context);
    void *context;
};

/* Makes the database where it is missing, brings an older one up to date, ends what earlier writers
 * left unfinished when they died, and begins a session. */
int store_open(const struct store_options *options, struct store **ret, struct store_error *error);
/* Ends the session. The handle is gone even when it fails. */
int store_close(struct store *store);

/* Where the database is; and the path that was asked for, if that is on a network filesystem and
 * a local directory was taken instead (NULL: it was not). */
const char *store_path(const struct store *store);
const char *store_moved_from(const struct store *store);

/* Why the last call failed. */
const char *store_error(const struct store *store);

/* Command lines in it are redacted by this, in place. A failed JSONL log is no failure of the
 * store: it is tried again at the next tick, see store_jsonl_error(). */
int store_write_tick(struct store *store, struct tick *tick);

/* 0, or why the last line could not be written to the JSONL log. */
int store_jsonl_error(const struct store *store);

/* A run begins: `job` names it (run_id, job_id, …), its outcome is running. If a run of that job
 * and user is still going on, the name becomes JOB-2 (or -3, …); what it became is put in
 * `ret_job_id`.
 *
 * A run that is there already (by its run_id) is taken over: it goes on under the name that it has,
 * in this session, with the figures that it had; that its former writer was lost is forgotten. Its
 * CPU time and the number of its processes are lower bounds then, unless its end brings exact ones.
 * One that has ended for good (a success, a failure, or unknown for another cause than "lost")
 * stays as it is: 0, with its name. */
int store_begin_job(struct store *store, const struct job *job,
                    char ret_job_id[static JOB_ID_NUMBERED_MAX_BYTES]);
/* The run is over, or its figures have changed: known fields replace what the samples gave. */
int store_finish_job(struct store *store, const struct job *job);

/* A step of a run, by (run_id, sheet_num): made or brought up to date, known fields replace. */
int store_write_sheet(struct store *store, const struct sheet *sheet);
/* By (timestamp, anomaly_type, pid, run_id): made, or brought up to date; one that is made and
 * opening is kept as a RESOURCE_ANOMALY pattern as well. What is open when the session ends, or
 * dies, was over with its last snapshot. */
int store_write_anomaly(struct store *store, const struct anomaly *anomaly);
/* Whose secrets are hidden, and how long things are kept, from now on. The list must outlive it. */
void store_configure(struct store *store, const struct text_list *redact,
                     const struct retention_config *retention);
/* By (pattern_type, pattern_name): made or replaced. */
int store_write_pattern(struct store *store, const struct pattern *pattern);
int store_delete_pattern(struct store *store, const char *pattern_type, const char *pattern_name);
/* All that holds of a type now, PATTERNS_RENEWED_MAX at most: what is there already keeps when it
 * was first seen and is seen once more, what is not in the list has expired and is deleted. */
int store_renew_patterns(struct store *store, const char *pattern_type,
                         const struct pattern_list *patterns);
#define PATTERNS_RENEWED_MAX 10000
/* The same for whoever has nothing else to write, and opens no session for it. The database must be
 * there. */
int store_renew_patterns_at(const char *path, const char *pattern_type,
                            const struct pattern_list *patterns, struct store_error *error);

/* Lets go of what is older than the configuration wants, in many short transactions; may be cut off
 * at any point and run again. 0, 1 if should_stop() cut it short, or a negative errno. */
int store_retain(struct store *store, double now);
/* Whether any writer has run it in the last hour. */
bool store_retained_lately(struct store *store, double now);

/* The disk is full: gives up the ballast file, so that retention has room to work in, lets go of
 * what has expired and shrinks the log. 0 if something may be written now. */
int store_make_room(struct store *store, double now);

/* ---- reading ---- */

struct store_reader;

/* -ENOENT if there is no database. Whatever is wrong with the file, it is left as it was. */
int store_reader_open(const char *path, struct store_reader **ret, struct store_error *error);
/* From any thread: a call that is under way fails soon. */
void store_reader_interrupt(struct store_reader *reader);
void store_reader_close(struct store_reader *reader);
void store_reader_closep(struct store_reader **reader);
const char *store_reader_error(const struct store_reader *reader);

/* Results are placed in `arena`. Each call is one short read transaction. */

/* `name` is JOB (its latest run), JOB~1 (the one before), or a run_id. -ENOENT: no such run. The
 * profile has its sheet_metrics. A run whose writer has died is unknown, cause "lost". */
int store_find_job(struct store_reader *reader, const char *name, struct arena *arena,
                   struct job *ret);

struct job_filter {
    double since; /* runs that were going on at or after; REAL_UNKNOWN: all */
    double until; /* … and began at or before */
    int outcome;  /* enum outcome; 0: any */
    const char *job_id;
    const char *job_type;
    const char *parent_run_id;
    int64_t uid;  /* whose; INT_UNKNOWN: anybody's */
    size_t limit; /* the latest ones; 0: all */
};

#define JOB_FILTER_ALL                                                                             \
    ((struct job_filter){.since = REAL_UNKNOWN, .until = REAL_UNKNOWN, .uid = INT_UNKNOWN})

/* Latest first. */
int store_read_jobs(struct store_reader *reader, const struct job_filter *filter,
                    struct arena *arena, struct job_list *ret);

struct digest_filter {
    double since; /* runs that ended then or later; REAL_UNKNOWN: all that have ended */
    const char *job_type;
    int64_t uid;       /* whose; INT_UNKNOWN: anybody's */
    bool with_details; /* system calls and anomalies, too */
    bool with_chain;   /* how a failure came about */
    size_t limit;      /* the latest ones to begin; 0: all */
};

typedef int (*digest_fn)(void *context, const struct run_digest *run);

/* Tells `visit` of each run that has ended, the latest to begin first. What it is given is gone
 * when it returns; a negative errno of it ends the visit and is returned. */
int store_visit_digests(struct store_reader *reader, const struct digest_filter *filter,
                        digest_fn visit, void *context);

int store_read_sheets(struct store_reader *reader, const char *run_id, struct arena *arena,
                      struct sheet_list *ret);

/* A process of a run when it was last seen. */
struct last_seen {
    int64_t pid;
    uint64_t start_ticks;
    int64_t sheet_num;
};

struct last_seen_list LIST(struct last_seen);

/* A run whose writer is gone, and that may go on all the same. */
struct orphaned_run {
    struct job job;
    struct last_seen_list processes; /* that were there at its last snapshot */
    struct sheet_list sheets;        /* that had not ended */
};

struct orphaned_run_list LIST(struct orphaned_run);

#define ORPHANED_RUNS_MAX 1000

/* The runs of this boot of this machine that were going on when their writer ended or died, and
 * that nobody has taken over: latest first, ORPHANED_RUNS_MAX at most. */
int store_read_orphaned(struct store_reader *reader, const char *host, const char *boot_id,
                        struct arena *arena, struct orphaned_run_list *ret);

struct event_filter {
    double since; /* REAL_UNKNOWN: from the beginning; inclusive, both */
    double until;
    const char *run_id; /* NULL: any */
    const char *job_id; /* NULL: any; all runs of it */
    int64_t pid;        /* INT_UNKNOWN: any */
    int event_type;     /* enum event_type; 0: any */
    bool only_notable;  /* signals, kills, OOM kills and exits with a status other than 0 */
    bool only_folded;   /* what was folded of storms; else that is among the others */
    int64_t uid;        /* of the runs of this user; INT_UNKNOWN: any, and those of no run */
    size_t limit;       /* the latest ones; 0: all */
};

#define EVENT_FILTER_ALL                                                                           \
    ((struct event_filter){                                                                        \
        .since = REAL_UNKNOWN, .until = REAL_UNKNOWN, .pid = INT_UNKNOWN, .uid = INT_UNKNOWN})

/* Oldest first. What was folded of a storm is one event (`count`) of each program, kind and status
 * of a run, as of the last of them; of its minutes, those that lie within the time, if only in
 * part. It has no pid, so that it is none of those of one pid. */
int store_read_events(struct store_reader *reader, const struct event_filter *filter,
                      struct arena *arena, struct process_event_list *ret);

/* The memory of a run. From `since` to `until`, oldest first. */
int store_read_memory(struct store_reader *reader, const char *run_id, double since, double until,
                      struct arena *arena, struct memory_point_list *ret);

/* Oldest first; of the run if `run_id` is not NULL; open or opened within the time. */
int store_read_anomalies(struct store_reader *reader, const char *run_id, double since,
                         double until, struct arena *arena, struct anomaly_list *ret);

/* Oldest first; of the sessions that stored the run, or a part of it, if `run_id` is not NULL. */
int store_read_gaps(struct store_reader *reader, const char *run_id, double since, double until,
                    struct arena *arena, struct gap_list *ret);

int store_read_patterns(struct store_reader *reader, struct arena *arena, struct pattern_list *ret);

#define SNAPSHOT_LIMIT_DEFAULT 100

/* The snapshots since a time, inclusive, oldest first, of all writers; minutes where samples are
 * gone. Each is the caller's: snapshot_list_done(). */
int store_read_snapshots(struct store_reader *reader, double since, size_t limit,
                         struct snapshot_list *ret);

/* A snapshot by its number and its time, for whoever goes back and forth between many. */
struct snapshot_mark {
    int64_t id;
    int64_t session; /* of its writer */
    double timestamp;
    double resolution_seconds;
};

struct snapshot_mark_list LIST(struct snapshot_mark);

/* Those since a time, inclusive, oldest first, of all writers; `limit` at most. */
int store_read_marks(struct store_reader *reader, double since, size_t limit, struct arena *arena,
                     struct snapshot_mark_list *ret);
/* -ENOENT: it is gone. The caller's: snapshot_free(). */
int store_read_snapshot(struct store_reader *reader, int64_t id, struct snapshot **ret);

/* One process at one time. */
struct process_point {
    double timestamp;
    double resolution_seconds;
    struct process_metric process;
};

struct process_point_list LIST(struct process_point);

/* Every process with that pid, or the one that started then (`start_time` known), oldest first. */
int store_read_process(struct store_reader *reader, int64_t pid, double start_time, double since,
                       size_t limit, struct arena *arena, struct process_point_list *ret);

/* `top` processes by CPU and as many by memory. */
int store_read_machine(struct store_reader *reader, double since, double until, size_t top,
                       struct arena *arena, struct machine_use *ret);
