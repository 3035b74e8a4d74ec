/* The store in a thread of its own, so that the loop never waits for a disk.
 *
 * Ticks, runs and steps are handed over completely and written in their order; only the snapshot
 * of a tick, which never changes, is shared. The queue is bounded: while the disk is full, hangs or
 * is too slow, further ticks are dropped and counted. The writer retries without limit; the loss is
 * then stored as a gap, with the anomalies of the dropped ticks. If the database is damaged, not
 * sonde's or unreachable, the writer reports the reason and stores nothing more.
 *
 * Call these functions from one thread, except where noted. Only store_writer_stop(),
 * store_writer_wait() and store_writer_hold() wait, for a bounded time. */
#pragma once

#include "model/tick-box.h"
#include "store/store.h"

/* Ticks that wait to be written: 6 s at the 100 ms of `sonde run`, which a flush of a disk may
 * take, and a few megabytes. */
#define STORE_QUEUE_MAX 64

/* Waiting messages about jobs and steps: above the first limit, clients should be throttled (a
 * message is 1 or 2 KiB, and a disk writes thousands per second); above the second, no new job or
 * step should begin. */
#define STORE_PENDING_HEAVY_BYTES (1024 * 1024)
#define STORE_PENDING_MAX_BYTES   (16 * 1024 * 1024)

/* Timeouts of the writer; tests use shorter ones. */
struct store_pace {
    uint64_t retry_ns;        /* between two attempts at a full disk */
    uint64_t retry_busy_ns;   /* between two attempts while another writer holds the database */
    uint64_t retain_every_ns; /* between two runs of retention */
    uint64_t stop_ns; /* until a hanging disk is abandoned; up to ten times as long while the thread
                         uses CPU time */
};

struct store_writer_options {
    /* Copied. The writer sets should_stop and context. */
    struct store_options store;
    struct store_pace pace; /* each 0: the default */

    /* Called once when write errors begin and once when they end, with a text without a newline; in
     * the writer's thread, or in store_writer_stop(). */
    void (*on_notice)(void *context, const char *text);
    void *context;
};

/* The state of the writer. */
struct store_report {
    char job_id[JOB_ID_NUMBERED_MAX_BYTES]; /* name of the last run that began; empty: none */
    uint64_t stored;                        /* snapshots */
    uint64_t dropped;                       /* snapshots */
    uint64_t events_lost;                   /* including anomalies that could not be kept */
    char error[sizeof(struct store_error)]; /* why data was not stored; empty: all was stored */
};

struct store_writer;

/* Starts the thread, which opens the store and reports an unusable one by on_notice. Returns 0 or a
 * negative errno. */
int store_writer_start(const struct store_writer_options *options, struct store_writer **ret);

/* Queues a tick, and takes ownership of the box in any case. */
void store_writer_tick(struct store_writer *writer, struct tick_box *box);

enum store_load {
    STORE_LOAD_LIGHT,
    STORE_LOAD_HEAVY,
    STORE_LOAD_FULL,
};

/* Returns how much data about jobs and steps is waiting to be written. For any thread. */
enum store_load store_writer_load(struct store_writer *writer);

/* Queue a copy of the argument. These messages are never dropped, so that a run that has begun can
 * end. Return 0 or -ENOMEM. */
int store_writer_begin_job(struct store_writer *writer, const struct job *job);
int store_writer_finish_job(struct store_writer *writer, const struct job *job);
int store_writer_sheet(struct store_writer *writer, const struct sheet *sheet);

/* See store_configure(). Returns 0 or -ENOMEM. */
int store_writer_configure(struct store_writer *writer, const struct retention_config *retention);

/* See store_renew_patterns(); copies both. Newer patterns replace those that still wait in the
 * queue. For any thread. Returns 0 or -ENOMEM. */
int store_writer_renew_patterns(struct store_writer *writer, const char *pattern_type,
                                const struct pattern_list *patterns);

/* Waits until the store is open and all messages so far are written, `max_ns` at most, so that a
 * caller can read what it wrote. Returns whether they are written. For any thread. */
bool store_writer_wait(struct store_writer *writer, uint64_t max_ns);

/* Returns the state so far; `error` is the current write error, if any. For any thread, while the
 * writer exists. */
void store_writer_report(struct store_writer *writer, struct store_report *ret);

/* Between hold and release nothing is written, so that a process that is stopped (SIGSTOP) does not
 * keep the database locked. */
void store_writer_hold(struct store_writer *writer);
void store_writer_release(struct store_writer *writer);

/* Writes the waiting messages, closes the store and ends the thread, or abandons the thread if the
 * disk hangs. Frees the writer. *ret is its final state. */
void store_writer_stop(struct store_writer *writer, struct store_report *ret);
