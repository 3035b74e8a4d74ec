/* The store: writes and reads everything that sonde keeps on disk.
 *
 * It is a SQLite database and, if configured, a JSONL log of snapshots beside it; callers see
 * neither. docs/SCHEMA.md describes the tables.
 *
 * A writer (the daemon, a `sonde run`) opens a session. Samples are stored as differences from the
 * session's previous snapshot. Several sessions can write to one database at the same time; readers
 * never block writers.
 *
 * Threads: a handle belongs to one thread. Calls are synchronous and can wait for the disk or for
 * another writer; writer/store-writer is for callers that must not wait.
 *
 * Errors: functions that return int return 0 or a negative errno, unless stated otherwise: -ENOSPC
 * (the disk is full), -EBUSY (another writer locked the database for too long), -EBADMSG (the
 * database is damaged), -ENOMEM, or the errno of a system call. store_error() and
 * store_reader_error() return the text. Each call is one transaction: a call that fails changes
 * nothing. `ret` parameters are set only on success.
 *
 * Times are Unix times in seconds. Strings and lists in parameters are borrowed for the duration of
 * the call, unless stated otherwise. */
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

/* One line that names the file, the cause and the fix; without a newline. */
struct store_error {
    char text[512];
};

/* ---- writing ---- */

struct store;

#define STORE_ANCESTORS_MAX 32

struct store_options {
    const char *path;
    const char *jsonl_path; /* NULL or empty: no JSONL log */
    int64_t jsonl_max_bytes;
    struct retention_config retention;

    /* the session */
    const char *host;
    const char *boot_id;
    const char *collector;
    double interval_seconds;
    /* For a daemon: the store writes growing figures less often, and truncates the write-ahead
     * log when it closes. An interval of 1 s or more has the same effect. */
    bool is_long_lived;
    /* The writer's ancestor processes, nearest first. If one of them has a running run, that run
     * becomes the parent of the runs that begin in this session. */
    int64_t ancestors[STORE_ANCESTORS_MAX];
    size_t ancestor_count;

    /* Called while a call waits for another writer, and between the transactions of retention;
     * true cancels the call. NULL: never cancel. */
    bool (*should_stop)(void *context);
    void *context;
};

/* Opens the database and begins a session. Creates a missing database, migrates one of an older
 * version, and ends the sessions of writers that died. */
int store_open(const struct store_options *options, struct store **ret, struct store_error *error);
/* Ends the session and frees the store, even if it returns an error. Runs that have not ended
 * become `unknown`, cause "lost"; open anomalies are cleared as of the last snapshot. NULL is
 * allowed. */
int store_close(struct store *store);

/* Returns the path of the database. */
const char *store_path(const struct store *store);
/* Returns the configured path if that is on a network filesystem and a local directory is used
 * instead; otherwise NULL. */
const char *store_moved_from(const struct store *store);

/* Returns the text of the last error of this handle; valid until the next call. */
const char *store_error(const struct store *store);

/* Stores a tick. All texts for the store are redacted already: it stores them as they are.
 *
 * An anomaly is identified by (timestamp, anomaly_type, pid, run_id): it is inserted or updated. A
 * new one that is opening is also stored as a RESOURCE_ANOMALY pattern.
 *
 * An error of the JSONL log is not an error of this call: see store_jsonl_error(). The next tick
 * tries again. */
int store_write_tick(struct store *store, const struct tick *tick);

/* Returns the result of the last write to the JSONL log: 0 or a negative errno. */
int store_jsonl_error(const struct store *store);

/* Begins a run, which `job` describes (run_id, job_id, …); its outcome is `running`. If another run
 * of this job and user is running, the run is named JOB-2 (or -3, …). `ret_job_id` receives the
 * name.
 *
 * If the database has a run with this run_id, this session takes it over: the run keeps its name
 * and its figures, and continues here, also after its previous writer was lost. Its CPU time and
 * number of processes are lower bounds from then on, unless store_finish_job() brings exact ones.
 *
 * A run that has ended (success, failure, or unknown for a cause other than "lost") is left
 * unchanged; the call returns 0 and its name. */
int store_begin_job(struct store *store, const struct job *job,
                    char ret_job_id[static JOB_ID_NUMBERED_MAX_BYTES]);
/* Stores the end of a run, or new figures of it. Known fields replace stored ones, except that a
 * session that took the run over does not lower inexact figures. Steps of the run that have not
 * ended end with it. */
int store_finish_job(struct store *store, const struct job *job);

/* Inserts or updates the step (run_id, sheet_num) of a run; known fields replace stored ones. */
int store_write_sheet(struct store *store, const struct sheet *sheet);

/* Replaces the retention settings. */
void store_configure(struct store *store, const struct retention_config *retention);

/* More patterns would exceed the number of parameters of an SQL statement. */
#define PATTERNS_RENEWED_MAX 10000

/* Replaces all patterns of a type by `patterns`, of which there are PATTERNS_RENEWED_MAX at most. A
 * pattern that was stored before keeps its first_seen, and its occurrences grow by 1. */
int store_renew_patterns(struct store *store, const char *pattern_type,
                         const struct pattern_list *patterns);
/* The same without a store and a session, for callers that write nothing else. Returns -ENOENT if
 * there is no database. */
int store_renew_patterns_at(const char *path, const char *pattern_type,
                            const struct pattern_list *patterns, struct store_error *error);

/* Retention: deletes and downsamples data that is older than configured, in many short
 * transactions. It can be interrupted at any point and run again. Returns 1 if should_stop()
 * cancelled it. */
int store_retain(struct store *store, double now);
/* Returns whether a writer has completed retention within the last hour. */
bool store_retained_lately(struct store *store, double now);

/* Frees space on a full disk: deletes the ballast file, runs retention and truncates the
 * write-ahead log. Returns 0 if the caller should try to write again. */
int store_make_room(struct store *store, double now);

/* ---- reading ---- */

struct store_reader;

/* Opens the database for reading. Never changes or repairs the file. Returns -ENOENT if there is no
 * database yet, -EPROTONOSUPPORT if another version of sonde made it. */
int store_reader_open(const char *path, struct store_reader **ret, struct store_error *error);
/* Cancels the running call, which returns -EINTR. Can be called from any thread. */
void store_reader_interrupt(struct store_reader *reader);
void store_reader_close(struct store_reader *reader);
void store_reader_closep(struct store_reader **reader);
/* Returns the text of the last error; valid until the next call. */
const char *store_reader_error(const struct store_reader *reader);

/* Results are allocated in `arena`, where there is one. Each call is one short read transaction. */

/* Finds a run. `name` is JOB (its latest run), JOB~1 (the run before), or a run_id. The profile
 * includes sheet_metrics. A running run whose writer has died gets the outcome `unknown` and the
 * cause "lost". Returns -ENOENT if there is no such run. */
int store_find_job(struct store_reader *reader, const char *name, struct arena *arena,
                   struct job *ret);

struct job_filter {
    double since; /* runs that had not ended before this time; REAL_UNKNOWN: all */
    double until; /* runs that began at or before this time; REAL_UNKNOWN: all */
    int outcome;  /* enum outcome; 0: any */
    const char *job_id;
    const char *job_type;
    const char *parent_run_id;
    int64_t uid;  /* runs of this user; INT_UNKNOWN: of any */
    size_t limit; /* only the latest; 0: all */
};

#define JOB_FILTER_ALL                                                                             \
    ((struct job_filter){.since = REAL_UNKNOWN, .until = REAL_UNKNOWN, .uid = INT_UNKNOWN})

/* Lists the runs that match all conditions, latest first. */
int store_read_jobs(struct store_reader *reader, const struct job_filter *filter,
                    struct arena *arena, struct job_list *ret);

struct digest_filter {
    double since; /* runs that ended at or after this time; REAL_UNKNOWN: all that have ended */
    const char *job_type;
    int64_t uid;       /* runs of this user; INT_UNKNOWN: of any */
    bool with_details; /* include system calls and anomalies */
    bool with_chain;   /* include the failure chain */
    size_t limit;      /* only the runs that began last; 0: all */
};

typedef int (*digest_fn)(void *context, const struct run_digest *run);

/* Calls `visit` for each run that has ended, the latest to begin first. The digest is valid only
 * during that call. A negative errno from `visit` ends the iteration and is returned. */
int store_visit_digests(struct store_reader *reader, const struct digest_filter *filter,
                        digest_fn visit, void *context);

/* Lists the steps of a run, by number. */
int store_read_sheets(struct store_reader *reader, const char *run_id, struct arena *arena,
                      struct sheet_list *ret);

/* A process of a run in the last snapshot that has it. */
struct last_seen {
    int64_t pid;
    uint64_t start_ticks;
    int64_t sheet_num;
};

struct last_seen_list LIST(struct last_seen);

/* A run whose writer has ended or died, and whose processes may still be running. */
struct orphaned_run {
    struct job job;
    struct last_seen_list processes; /* of its last snapshot */
    struct sheet_list sheets;        /* steps that have not ended */
};

struct orphaned_run_list LIST(struct orphaned_run);

#define ORPHANED_RUNS_MAX 1000

/* Lists the runs of this boot of this machine that were running when their writer ended or died,
 * and that no other writer has taken over: latest first, ORPHANED_RUNS_MAX at most. */
int store_read_orphaned(struct store_reader *reader, const char *host, const char *boot_id,
                        struct arena *arena, struct orphaned_run_list *ret);

struct event_filter {
    double since;         /* inclusive; REAL_UNKNOWN: no limit */
    double until;         /* the same */
    const char *run_id;   /* NULL: any */
    const char *job_id;   /* all runs of this job; NULL: any */
    int64_t pid;          /* INT_UNKNOWN: any */
    unsigned event_types; /* a set of EVENT_TYPE_BIT(); 0: any */
    bool only_notable;    /* signals, kills, OOM kills and exits with a status other than 0 */
    bool only_folded;     /* only events that were folded during storms */
    int64_t uid;          /* events of runs of this user; INT_UNKNOWN: all, also those of no run */
    size_t limit;         /* only the latest; 0: all */
};

#define EVENT_FILTER_ALL                                                                           \
    ((struct event_filter){                                                                        \
        .since = REAL_UNKNOWN, .until = REAL_UNKNOWN, .pid = INT_UNKNOWN, .uid = INT_UNKNOWN})

/* Lists the events that match all conditions, oldest first. Events that were folded during a storm
 * are listed as one event for each run, program, type and status, with a `count` and the time of
 * the last one. Such counts are stored per minute; a minute that is partly in the range counts
 * whole. Folded events have no pid, so that a filter by pid excludes them. */
int store_read_events(struct store_reader *reader, const struct event_filter *filter,
                      struct arena *arena, struct process_event_list *ret);

/* Lists the memory of a run from `since` to `until`, oldest first. */
int store_read_memory(struct store_reader *reader, const char *run_id, double since, double until,
                      struct arena *arena, struct memory_point_list *ret);

/* Lists the anomalies that were open at any time from `since` to `until`, oldest first; with a
 * `run_id`, only those of the run. */
int store_read_anomalies(struct store_reader *reader, const char *run_id, double since,
                         double until, struct arena *arena, struct anomaly_list *ret);

/* Lists the gaps from `since` to `until`, oldest first; with a `run_id`, only those during the run,
 * in a session that stored the run or a part of it. */
int store_read_gaps(struct store_reader *reader, const char *run_id, double since, double until,
                    struct arena *arena, struct gap_list *ret);

/* Lists all patterns, by type and name. */
int store_read_patterns(struct store_reader *reader, struct arena *arena, struct pattern_list *ret);

#define SNAPSHOT_LIMIT_DEFAULT 100

/* Reads the first `limit` (0: SNAPSHOT_LIMIT_DEFAULT) snapshots of all writers since a time,
 * inclusive, oldest first. Where retention has deleted the samples, one-minute averages take their
 * place. The caller frees the list with snapshot_list_done(). */
int store_read_snapshots(struct store_reader *reader, double since, size_t limit,
                         struct snapshot_list *ret);

/* The id and the time of a snapshot, for a caller that moves between many of them. */
struct snapshot_mark {
    int64_t id;
    int64_t session; /* of its writer */
    double timestamp;
    double resolution_seconds;
};

struct snapshot_mark_list LIST(struct snapshot_mark);

/* Lists the marks of the first `limit` snapshots of all writers since a time, inclusive, oldest
 * first. */
int store_read_marks(struct store_reader *reader, double since, size_t limit, struct arena *arena,
                     struct snapshot_mark_list *ret);
/* Reads one snapshot, which the caller frees with snapshot_free(). Returns -ENOENT if it does not
 * exist any more. */
int store_read_snapshot(struct store_reader *reader, int64_t id, struct snapshot **ret);

/* One process at one time. */
struct process_point {
    double timestamp;
    double resolution_seconds;
    struct process_metric process;
};

struct process_point_list LIST(struct process_point);

/* Lists the first `limit` (0: SNAPSHOT_LIMIT_DEFAULT) samples since a time, oldest first: of all
 * processes that had this pid or, with a known `start_time`, of the one that started then. */
int store_read_process(struct store_reader *reader, int64_t pid, double start_time, double since,
                       size_t limit, struct arena *arena, struct process_point_list *ret);

/* Sums up what the machine used from `since` to `until`, inclusive, with the `top` processes by CPU
 * time and as many by memory. */
int store_read_machine(struct store_reader *reader, double since, double until, size_t top,
                       struct arena *arena, struct machine_use *ret);
