/* The thread that writes the queue to the store. A message stays at the head of the queue until it
 * is written, so that retries keep the order. This file retries failed writes and frees room on a
 * full disk; write-errors formats the notices, store-upkeep schedules maintenance. */
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/macros.h"
#include "base/thread.h"
#include "writer/store-writer-parts.h"

/* Other failures may be temporary, but a message that cannot be written must not block the others.
 */
#define TRIES_MAX 3

/* ---- writing ---- */

/* Called by the store: ticks, hold and stop interrupt retention; the deadline interrupts all. */
static bool should_stop(void *context)
{
    struct store_writer *writer = context;

    pthread_mutex_lock(&writer->lock);
    uint64_t now_ns = clock_mono_ns();
    bool is_late = writer->is_stopping && now_ns >= writer->stop_by_ns;
    bool has_other_work =
        writer->is_stopping || writer->is_held || writer->queue.ticks_waiting > STORE_QUEUE_MAX / 2;
    pthread_mutex_unlock(&writer->lock);
    return is_late || (writer->upkeep.is_retaining && has_other_work &&
                       now_ns >= writer->upkeep.retain_at_least_until_ns);
}

static int open_store(struct store_writer *writer)
{
    struct store_options options = writer->options.store;

    options.should_stop = should_stop;
    options.context = writer;
    int r = store_open(&options, &writer->store, &writer->error);
    if (r == 0 && store_moved_from(writer->store))
        write_errors_notify(
            &writer->errors,
            "%s is on a network filesystem, where a database cannot be shared; using"
            " %s instead",
            store_moved_from(writer->store), store_path(writer->store));
    return r;
}

/* After a message was written: records and reports the name of a new run, and checks the JSONL log.
 */
static void report_written(struct store_writer *writer, const struct store_message *message)
{
    if (message->kind == STORE_MESSAGE_BEGIN_JOB) {
        pthread_mutex_lock(&writer->lock);
        strcpy(writer->report.job_id, message->job_id);
        pthread_mutex_unlock(&writer->lock);
        if (strcmp(message->job_id, message->job.job_id) != 0)
            write_errors_notify(&writer->errors,
                                "a run of '%s' is still active: this one is called '%s'",
                                message->job.job_id, message->job_id);
    }
    if (message->kind == STORE_MESSAGE_TICK)
        write_errors_check_log(&writer->errors, writer->options.store.jsonl_path,
                               store_jsonl_error(writer->store));
}

static void begin_work(struct store_writer *writer)
{
    pthread_mutex_lock(&writer->lock);
    while (writer->is_held)
        pthread_cond_wait(&writer->wake, &writer->lock);
    writer->is_busy = true;
    pthread_mutex_unlock(&writer->lock);
}

static void end_work(struct store_writer *writer)
{
    pthread_mutex_lock(&writer->lock);
    writer->is_busy = false;
    pthread_cond_broadcast(&writer->rest);
    pthread_mutex_unlock(&writer->lock);
}

/* Opens a new database and writes the message to it, because the old one was removed. */
static int recreate_store(struct store_writer *writer, struct store_message *message)
{
    write_errors_notify(&writer->errors, "%s; creating a new one", writer->error.text);
    store_close(TAKE_PTR(writer->store));
    int r = open_store(writer);
    if (r == 0 && (r = store_message_write(message, writer->store)) < 0)
        snprintf(writer->error.text, sizeof(writer->error.text), "%s", store_error(writer->store));
    return r;
}

/* Opens the store if needed, and writes the message (NULL: none). Returns 0 or a negative errno,
 * with the text in writer->error. */
static int try_write(struct store_writer *writer, struct store_message *message)
{
    int reported = writer->errors.error;

    begin_work(writer);
    int r = writer->store ? 0 : open_store(writer);
    if (r == 0 && message) {
        r = store_message_write(message, writer->store);
        /* Makes room once each time that the disk gets full, not at every tick while it is nearly
         * full. */
        if (r == -ENOSPC && (!reported || reported == -ETIME) &&
            store_upkeep_may_make_room(&writer->upkeep, writer->options.pace.retry_ns) &&
            store_make_room(writer->store, ns_to_sec(clock_real_ns())) == 0)
            r = store_message_write(message, writer->store);
        if (r < 0)
            snprintf(writer->error.text, sizeof(writer->error.text), "%s",
                     store_error(writer->store));
        if (r == -ESTALE && writer->options.store.is_long_lived)
            r = recreate_store(writer, message);
    }
    end_work(writer);
    return r;
}

/* ---- errors ---- */

static void report_error(struct store_writer *writer, int error, const char *message)
{
    if (!write_errors_is_new(&writer->errors, error))
        return;
    pthread_mutex_lock(&writer->lock);
    bool is_stopping = writer->is_stopping;
    writer->queue.loss_reason = write_errors_reason(error);
    if (!is_stopping)
        snprintf(writer->current.text, sizeof(writer->current.text), "%s", message);
    pthread_mutex_unlock(&writer->lock);
    if (!is_stopping) /* else only the final result is reported */
        write_errors_begin(&writer->errors, error, message);
}

/* After a message was written: reports that errors have ended. They have when the queue is empty,
 * because then no more is lost. `loss` is what was lost before. */
static void report_recovery(struct store_writer *writer, bool is_empty,
                            const struct tick_loss *loss)
{
    if (!tick_loss_is_empty(loss))
        report_error(writer, -ETIME, "the disk is too slow to store every snapshot");
    if (!writer->errors.error || !is_empty) /* a loss without a notice is reported at the end */
        return;
    /* Cleared before the notice, so that a caller that reacts to it finds no error any more. */
    pthread_mutex_lock(&writer->lock);
    writer->queue.episode = (struct tick_loss){0};
    writer->current.text[0] = '\0';
    pthread_mutex_unlock(&writer->lock);
    write_errors_end(&writer->errors, loss, writer->queue.interval_seconds);
}

/* Stops storing for good, and reports the reason. */
static void give_up(struct store_writer *writer)
{
    pthread_mutex_lock(&writer->lock);
    const char *how = !writer->report.job_id[0] && !writer->report.stored ? "not stored"
                      : writer->is_stopping                               ? "not stored to the end"
                                                                          : "no longer stored";
    snprintf(writer->report.error, sizeof(writer->report.error), "%s", writer->error.text);
    store_queue_close(&writer->queue);
    store_queue_clear(&writer->queue);
    pthread_mutex_unlock(&writer->lock);
    write_errors_notify(&writer->errors, "%s: %s", how, writer->error.text);
}

static bool is_stopping(struct store_writer *writer)
{
    pthread_mutex_lock(&writer->lock);
    bool is_stopping = writer->is_stopping;
    pthread_mutex_unlock(&writer->lock);
    return is_stopping;
}

/* Waits for the next attempt, or until the writer stops. */
static void wait_for_retry(struct store_writer *writer, int error, bool was_stopping)
{
    const struct store_pace *pace = &writer->options.pace;
    uint64_t until_ns = clock_mono_ns() + (error == -EBUSY ? pace->retry_busy_ns : pace->retry_ns);

    pthread_mutex_lock(&writer->lock);
    while (writer->is_stopping == was_stopping && clock_mono_ns() < until_ns)
        cond_wait_until(&writer->wake, &writer->lock, until_ns);
    pthread_mutex_unlock(&writer->lock);
}

static bool is_temporary(int error)
{
    return error == -ENOSPC || error == -EBUSY;
}

/* Writes a message, with retries; NULL: only opens the store. Returns 0, 1 if the message was left
 * out, or a negative errno after which the caller stops storing. */
static int write_with_retries(struct store_writer *writer, struct store_message *message)
{
    for (unsigned tries = 1;; tries++) {
        bool was_stopping = is_stopping(writer);
        int r = try_write(writer, message);
        if (r == 0)
            return 0;
        bool is_final = !is_temporary(r) && (!writer->store || r == -EBADMSG);
        /* While the writer stops, a full disk gets one more attempt; if another writer holds the
         * database, there are attempts until stop_by_ns, which does not change any more. */
        bool has_time = r == -EBUSY &&
                        clock_mono_ns() + writer->options.pace.retry_busy_ns < writer->stop_by_ns;
        if (is_final || (was_stopping && !has_time))
            return r;
        if (!is_temporary(r) && tries >= TRIES_MAX)
            return store_message_is_droppable(message) ? 1 : r;
        report_error(writer, r, writer->error.text);
        wait_for_retry(writer, r, was_stopping);
    }
}

/* ---- main loop ---- */

enum work {
    WORK_WRITE,
    WORK_RETAIN,
    WORK_STOP,
};

static enum work await_work(struct store_writer *writer, struct store_message **ret)
{
    enum work work;

    pthread_mutex_lock(&writer->lock);
    for (;;) {
        *ret = store_queue_first(&writer->queue);
        work = *ret ? WORK_WRITE : writer->is_stopping ? WORK_STOP : WORK_RETAIN;
        if (work != WORK_RETAIN || clock_mono_ns() >= writer->upkeep.retain_at_ns)
            break;
        cond_wait_until(&writer->wake, &writer->lock, writer->upkeep.retain_at_ns);
    }
    pthread_mutex_unlock(&writer->lock);
    return work;
}

/* Writes the first message and removes it from the queue. Returns 0, or a negative errno after
 * which the caller stops storing. */
static int write_next(struct store_writer *writer, struct store_message *message)
{
    /* Once half of the time to stop is over, the rest is for the end of the run, which comes last.
     */
    bool is_left_out = store_message_is_droppable(message) && is_stopping(writer) &&
                       clock_mono_ns() + writer->options.pace.stop_ns / 2 >= writer->stop_by_ns;
    int r = is_left_out ? 1 : write_with_retries(writer, message);
    if (r < 0)
        return r;

    pthread_mutex_lock(&writer->lock);
    store_queue_remove(&writer->queue, message);
    if (r == 1 && message->box)
        store_queue_count_lost(&writer->queue, message->box);
    else
        writer->report.stored += message->box && tick_stored_snapshot(&message->box->tick);
    bool is_empty = !store_queue_first(&writer->queue);
    bool is_relieved = is_empty && TAKE(writer->was_heavy, false);
    struct tick_loss loss = writer->queue.episode;
    pthread_mutex_unlock(&writer->lock);
    if (r == 0) {
        report_written(writer, message);
        report_recovery(writer, is_empty, &loss);
    }
    store_message_free(message);
    /* The C library does not return free memory between used blocks by itself. */
    if (is_relieved)
        malloc_trim(0);
    return 0;
}

static void run_retention(struct store_writer *writer, bool at_the_end)
{
    begin_work(writer);
    int r = at_the_end ? store_upkeep_retain_slice(&writer->upkeep, writer->store)
                       : store_upkeep_retain(&writer->upkeep, writer->store,
                                             writer->options.pace.retain_every_ns);
    end_work(writer);
    /* A full disk is reported when a snapshot is lost; if the database is busy, another writer may
     * run the retention. */
    if (r < 0 && !is_temporary(r))
        write_errors_notify(&writer->errors, "retention failed: %s", store_error(writer->store));
}

/* Stores and reports a loss after the last tick, which no other tick can carry. */
static void write_last_loss(struct store_writer *writer)
{
    _cleanup_(tick_box_freep) struct tick_box *box = tick_box_new();
    if (!box)
        return;

    pthread_mutex_lock(&writer->lock);
    const char *reason = writer->queue.loss_reason;
    struct tick_loss unreported = writer->queue.episode;
    memcpy(box->tick.beside_run, writer->queue.beside_run, sizeof(box->tick.beside_run));
    store_queue_move_loss(&writer->queue, box);
    pthread_mutex_unlock(&writer->lock);
    int r = 0;
    if (box->tick.gaps.count || box->tick.anomalies.count)
        r = store_write_tick(writer->store, &box->tick);
    if (r < 0) {
        pthread_mutex_lock(&writer->lock);
        writer->queue.events_lost += box->tick.anomalies.count;
        pthread_mutex_unlock(&writer->lock);
    }
    if (!tick_loss_is_empty(&unreported))
        write_errors_report_loss(&writer->errors, reason, &unreported,
                                 writer->queue.interval_seconds, ", at the end");
}

static int write_all(struct store_writer *writer)
{
    struct store_message *message;
    int r = write_with_retries(writer, NULL);

    pthread_mutex_lock(&writer->lock);
    writer->is_open = true;
    pthread_mutex_unlock(&writer->lock);
    while (r == 0) {
        switch (await_work(writer, &message)) {
        case WORK_WRITE: r = write_next(writer, message); break;
        case WORK_RETAIN: run_retention(writer, false); break;
        case WORK_STOP:
            write_last_loss(writer);
            run_retention(writer, true);
            return 0;
        }
    }
    return r;
}

void *writer_thread_run(void *argument)
{
    struct store_writer *writer = argument;

    if (write_all(writer) < 0)
        give_up(writer);
    if (writer->store && store_close(writer->store) < 0)
        write_errors_notify(&writer->errors, "cannot close the database properly");

    pthread_mutex_lock(&writer->lock);
    writer->is_done = true;
    bool is_abandoned = writer->is_abandoned;
    pthread_cond_broadcast(&writer->rest);
    pthread_mutex_unlock(&writer->lock);
    if (is_abandoned)
        store_writer_free(writer);
    return NULL;
}
