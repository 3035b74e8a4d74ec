/* The store in a thread of its own, so that nobody waits for a disk.
 *
 * Ticks, runs and steps are handed over whole and written in their order. The queue is bounded:
 * when the disk is full, hangs or is too slow, what comes then is dropped and counted, and the
 * store gets to know of it as a gap when it can be written again, which is tried for as long as it
 * takes; what was noticed in it is kept until then. A database that is damaged, foreign or out of
 * reach is given up for good, with the reason.
 *
 * All of it is called from one thread, except as said; none of it waits but store_writer_stop(),
 * for a time that is bounded, and store_writer_hold(). */
#pragma once

#include "model/tick-box.h"
#include "store/store.h"

/* Ticks that wait to be written: 6 s of them at the 100 ms of `sonde run`, which a disk may well
 * need for a flush, and some megabytes. */
#define STORE_QUEUE_MAX 64

/* What was told of jobs and steps and waits to be written: above the first, whoever tells more
 * should wait (a message is a kilobyte or two, and a disk writes thousands of them in a second);
 * above the second, nothing more should begin. */
#define STORE_TOLD_HEAVY_BYTES (1024 * 1024)
#define STORE_TOLD_MAX_BYTES   (16 * 1024 * 1024)

/* How patient the writer is; tests are in more of a hurry. */
struct store_pace {
    uint64_t retry_ns;        /* between two tries at a full disk */
    uint64_t retry_busy_ns;   /* … at a database that another writer held too long */
    uint64_t retain_every_ns; /* retention, at most */
    uint64_t stop_ns;         /* until a disk that hangs is abandoned; ten times as long while the
                                 thread uses CPU time */
};

struct store_writer_options {
    /* Copied. should_stop and context are the writer's own. */
    struct store_options store;
    struct store_pace pace; /* 0: as usual, each */

    /* Tells of trouble once, and once of its end, in words without a newline. Called in the
     * writer's thread, or in store_writer_stop(). */
    void (*on_notice)(void *context, const char *text);
    void *context;
};

/* What became of it all. */
struct store_report {
    char job_id[JOB_ID_NUMBERED_MAX_BYTES]; /* as the last run begun is called; empty: there is none
                                             */
    uint64_t stored;                        /* snapshots */
    uint64_t dropped;                       /* snapshots */
    uint64_t events_lost;                   /* anomalies that could not be kept included */
    char error[sizeof(struct store_error)]; /* why not all is stored; empty: all of it is */
};

struct store_writer;

/* The store is opened by the thread: an unusable one is told of by on_notice. 0 or a negative
 * errno.
 */
int store_writer_start(const struct store_writer_options *options, struct store_writer **ret);

/* The box is the writer's from then on, whatever comes of it. */
void store_writer_tick(struct store_writer *writer, struct tick_box *box);

enum store_load {
    STORE_LOAD_LIGHT,
    STORE_LOAD_HEAVY,
    STORE_LOAD_FULL,
};

/* How much that was told waits to be written. For any thread. */
enum store_load store_writer_load(struct store_writer *writer);

/* What they are given is copied, and never dropped, whatever the load: what has begun can end. 0 or
 * -ENOMEM. */
int store_writer_begin_job(struct store_writer *writer, const struct job *job);
int store_writer_finish_job(struct store_writer *writer, const struct job *job);
int store_writer_sheet(struct store_writer *writer, const struct sheet *sheet);

/* See store_configure(); both are copied. 0 or -ENOMEM. */
int store_writer_configure(struct store_writer *writer, const struct text_list *redact,
                           const struct retention_config *retention);

/* See store_renew_patterns(); both are copied, and take the place of those that still wait. For any
 * thread. 0 or -ENOMEM. */
int store_writer_renew_patterns(struct store_writer *writer, const char *pattern_type,
                                const struct pattern_list *patterns);

/* Until the store is open and all that was handed over is written, or `max_ns` have passed: who
 * tells of something and then asks for it should find it. Whether it is written. For any thread. */
bool store_writer_wait(struct store_writer *writer, uint64_t max_ns);

/* What became of it so far; `error` is the trouble that goes on, if there is any. For any thread,
 * as long as the writer is there. */
void store_writer_ask(struct store_writer *writer, struct store_report *ret);

/* Nothing is written between the two, so that a process that is stopped meanwhile does not keep the
 * database locked. */
void store_writer_hold(struct store_writer *writer);
void store_writer_release(struct store_writer *writer);

/* Writes what waits, closes the store and ends the thread, or abandons it if the disk hangs. The
 * writer is gone. */
void store_writer_stop(struct store_writer *writer, struct store_report *ret);
