/* How it is arranged: the caller's thread only ever takes the lock for as long as a pointer is
 * queued. What the thread writes stays at the head of the queue until it is written, so that the
 * order holds whatever has to be tried again. `persist()` is where failures are dealt with;
 * store-queue has what waits and what was lost, store-trouble the words, store-upkeep the rest. */
#include "writer/store-writer.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/macros.h"
#include "writer/store-queue.h"
#include "writer/write-errors.h"
#include "writer/store-upkeep.h"
#include "writer/store-writer-options.h"

/* Of what the thread needs, SQLite needs most, some 50 KiB. Untouched pages cost nothing, and
 * sanitizers multiply it. */
#define STACK_BYTES (512 * 1024)

/* Other failures, such as of a disk, may pass; a tick that cannot be written must not keep the
 * others waiting for ever. */
#define TRIES_MAX 3

/* How much longer than usual a thread is waited for that does not hang. */
#define STOP_TIMES_MAX 10

/* A transaction takes milliseconds; whoever stops the process will not wait for a disk that hangs.
 */
#define HOLD_NS (NS_PER_SEC / 2)
/* A message leaves the queue a moment after it was written. */
#define WAIT_STEP_NS (2 * NS_PER_MSEC)

struct store_writer {
    /* only read once the thread runs */
    struct store_writer_options options;
    struct arena arena; /* holds what they point to */
    pthread_t thread;

    /* for both threads */
    pthread_mutex_t lock;
    pthread_cond_t wake; /* there is something to do */
    pthread_cond_t rest; /* nothing is being written, or all of it is done */
    struct store_queue queue;
    bool is_stopping;
    uint64_t stop_by_ns; /* on the monotonic clock: nothing is waited for any longer */
    bool is_open;
    bool is_held;
    bool is_busy;
    bool was_heavy; /* since nothing has waited */
    bool is_done;
    bool is_abandoned; /* the thread frees the writer when it ends after all */
    struct store_report report;
    struct store_error told; /* of the trouble that goes on; empty: there is none */

    /* the thread's own */
    struct store *store;
    struct store_message *settings; /* in force; NULL: those of the beginning */
    struct store_error error;       /* of the last failure */
    struct write_errors trouble;
    struct store_upkeep upkeep;
};

/* ---- small things ---- */

/* Waits until it is signalled or the monotonic clock says so; false if it does. */
static bool wait_until(struct store_writer *writer, pthread_cond_t *condition, uint64_t mono_ns)
{
    const struct timespec until = {.tv_sec = (time_t)(mono_ns / NS_PER_SEC),
                                   .tv_nsec = (long)(mono_ns % NS_PER_SEC)};

    return pthread_cond_timedwait(condition, &writer->lock, &until) == 0;
}

/* ---- the queue ---- */

static enum store_load load_of(const struct store_queue *queue)
{
    return queue->told_bytes > STORE_TOLD_MAX_BYTES     ? STORE_LOAD_FULL
           : queue->told_bytes > STORE_TOLD_HEAVY_BYTES ? STORE_LOAD_HEAVY
                                                        : STORE_LOAD_LIGHT;
}

enum store_load store_writer_load(struct store_writer *writer)
{
    pthread_mutex_lock(&writer->lock);
    enum store_load load = load_of(&writer->queue);
    pthread_mutex_unlock(&writer->lock);
    return load;
}

static int push(struct store_writer *writer, struct store_message *message)
{
    if (!message)
        return -ENOMEM;
    pthread_mutex_lock(&writer->lock);
    bool is_closed = writer->queue.is_closed;
    if (!is_closed) {
        store_queue_push(&writer->queue, message);
        writer->was_heavy |= load_of(&writer->queue) != STORE_LOAD_LIGHT;
        pthread_cond_signal(&writer->wake);
    }
    pthread_mutex_unlock(&writer->lock);
    if (is_closed)
        store_message_free(message);
    return 0;
}

void store_writer_tick(struct store_writer *writer, struct tick_box *box)
{
    pthread_mutex_lock(&writer->lock);
    bool is_queued = store_queue_push_tick(&writer->queue, box);
    if (is_queued)
        pthread_cond_signal(&writer->wake);
    pthread_mutex_unlock(&writer->lock);
    if (!is_queued)
        tick_box_free(box);
}

int store_writer_begin_job(struct store_writer *writer, const struct job *job)
{
    return push(writer, store_message_of_job(STORE_MESSAGE_BEGIN_JOB, job));
}

int store_writer_finish_job(struct store_writer *writer, const struct job *job)
{
    return push(writer, store_message_of_job(STORE_MESSAGE_FINISH_JOB, job));
}

int store_writer_sheet(struct store_writer *writer, const struct sheet *sheet)
{
    return push(writer, store_message_of_sheet(sheet));
}

int store_writer_configure(struct store_writer *writer, const struct text_list *redact,
                           const struct retention_config *retention)
{
    return push(writer, store_message_of_settings(redact, retention));
}

int store_writer_renew_patterns(struct store_writer *writer, const char *pattern_type,
                                const struct pattern_list *patterns)
{
    struct store_message *message = store_message_of_patterns(pattern_type, patterns);

    if (!message)
        return -ENOMEM;
    pthread_mutex_lock(&writer->lock);
    struct store_message *older = store_queue_take_patterns(&writer->queue);
    pthread_mutex_unlock(&writer->lock);
    store_message_free(older);
    return push(writer, message);
}

/* ---- in the thread: writing ---- */

/* Asked by the store: ticks go before retention, and so does whoever wants to be gone. */
static bool should_stop(void *context)
{
    struct store_writer *writer = context;

    pthread_mutex_lock(&writer->lock);
    uint64_t now_ns = clock_mono_ns();
    bool is_late = writer->is_stopping && now_ns >= writer->stop_by_ns;
    bool is_wanted =
        writer->is_stopping || writer->is_held || writer->queue.ticks_waiting > STORE_QUEUE_MAX / 2;
    pthread_mutex_unlock(&writer->lock);
    return is_late || (writer->upkeep.is_retaining && is_wanted &&
                       now_ns >= writer->upkeep.retain_at_least_until_ns);
}

static int open_store(struct store_writer *writer)
{
    struct store_options options = writer->options.store;

    options.should_stop = should_stop;
    options.context = writer;
    int r = store_open(&options, &writer->store, &writer->error);
    if (r == 0 && store_moved_from(writer->store))
        write_errors_say(&writer->trouble,
                          "%s is on a network filesystem, which a database cannot be shared on: it"
                          " is kept in %s",
                          store_moved_from(writer->store), store_path(writer->store));
    return r;
}

static void note_begun_job(struct store_writer *writer, const struct store_message *message)
{
    pthread_mutex_lock(&writer->lock);
    strcpy(writer->report.job_id, message->job_id);
    pthread_mutex_unlock(&writer->lock);
    if (strcmp(message->job_id, message->job.job_id) != 0)
        write_errors_say(&writer->trouble,
                          "a run of '%s' is still going on: this one is called '%s'",
                          message->job.job_id, message->job_id);
}

static void note_written(struct store_writer *writer, const struct store_message *message)
{
    if (message->kind == STORE_MESSAGE_BEGIN_JOB)
        note_begun_job(writer, message);
    if (message->kind == STORE_MESSAGE_TICK)
        write_errors_check_log(&writer->trouble, writer->options.store.jsonl_path,
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

/* Once for each time that the disk gets full, and not with every tick if it stays nearly so. */
static bool may_make_room(struct store_writer *writer)
{
    int told = writer->trouble.error;

    return (!told || told == -ETIME) &&
           store_upkeep_may_make_room(&writer->upkeep, writer->options.pace.retry_ns);
}

/* Somebody has taken the database away: whoever stays makes a new one. */
static int remake(struct store_writer *writer, struct store_message *message)
{
    write_errors_say(&writer->trouble, "%s; a new one is made", writer->error.text);
    store_close(TAKE_PTR(writer->store));
    int r = open_store(writer);
    if (r == 0 && (r = store_message_write(message, writer->store)) < 0)
        snprintf(writer->error.text, sizeof(writer->error.text), "%s", store_error(writer->store));
    return r;
}

/* Opens the store if that is still to be done, and writes the message (NULL: none). 0 or a negative
 * errno, with the words in writer->error. */
static int attempt(struct store_writer *writer, struct store_message *message)
{
    begin_work(writer);
    int r = writer->store ? 0 : open_store(writer);
    if (r == 0 && message) {
        r = store_message_write(message, writer->store);
        if (r == -ENOSPC && may_make_room(writer) &&
            store_make_room(writer->store, ns_to_sec(clock_real_ns())) == 0)
            r = store_message_write(message, writer->store);
        if (r < 0)
            snprintf(writer->error.text, sizeof(writer->error.text), "%s",
                     store_error(writer->store));
        if (r == -ESTALE && writer->options.store.is_long_lived)
            r = remake(writer, message);
    }
    end_work(writer);
    return r;
}

/* ---- in the thread: trouble ---- */

static void begin_trouble(struct store_writer *writer, int error, const char *words)
{
    if (!write_errors_is_news(&writer->trouble, error))
        return;
    pthread_mutex_lock(&writer->lock);
    bool is_stopping = writer->is_stopping;
    writer->queue.loss_reason = write_errors_reason(error);
    if (!is_stopping)
        snprintf(writer->told.text, sizeof(writer->told.text), "%s", words);
    pthread_mutex_unlock(&writer->lock);
    if (!is_stopping) /* else only how it ends is of interest */
        write_errors_begin(&writer->trouble, error, words);
}

/* Something was written, and until then `cost` was lost. Trouble is over when nothing waits any
 * more, because then no more is lost. */
static void note_success(struct store_writer *writer, bool is_calm, const struct tick_loss *cost)
{
    if (!tick_loss_is_empty(cost))
        begin_trouble(writer, -ETIME, "the disk is too slow to store every snapshot");
    if (!writer->trouble.error || !is_calm) /* what was not told of is told at the end */
        return;
    /* Before the notice: a caller who asks because of it finds no error any more. */
    pthread_mutex_lock(&writer->lock);
    writer->queue.episode = (struct tick_loss){0};
    writer->told.text[0] = '\0';
    pthread_mutex_unlock(&writer->lock);
    write_errors_end(&writer->trouble, cost, writer->queue.interval_seconds);
}

/* Nothing is stored from now on. */
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
    write_errors_say(&writer->trouble, "%s: %s", how, writer->error.text);
}

static bool is_stopping(struct store_writer *writer)
{
    pthread_mutex_lock(&writer->lock);
    bool is_stopping = writer->is_stopping;
    pthread_mutex_unlock(&writer->lock);
    return is_stopping;
}

/* When the writer is to stop, a full disk is tried once more, and another writer is waited for a
 * little longer. */
static bool was_last_try(const struct store_writer *writer, int error)
{
    /* stop_by_ns does not change any more */
    return error != -EBUSY ||
           clock_mono_ns() + writer->options.pace.retry_busy_ns >= writer->stop_by_ns;
}

/* Until it is time for another try, or the writer is to stop. */
static void pause_after(struct store_writer *writer, int error, bool was_stopping)
{
    const struct store_pace *pace = &writer->options.pace;
    uint64_t until_ns = clock_mono_ns() + (error == -EBUSY ? pace->retry_busy_ns : pace->retry_ns);

    pthread_mutex_lock(&writer->lock);
    while (writer->is_stopping == was_stopping && clock_mono_ns() < until_ns)
        wait_until(writer, &writer->wake, until_ns);
    pthread_mutex_unlock(&writer->lock);
}

static bool is_passing(int error)
{
    return error == -ENOSPC || error == -EBUSY;
}

/* Writes a message as often as it takes; NULL: opens the store. 0; 1 if it was left out; or a
 * negative errno, after which storing is given up. */
static int persist(struct store_writer *writer, struct store_message *message)
{
    for (unsigned tries = 1;; tries++) {
        bool was_stopping = is_stopping(writer);
        int r = attempt(writer, message);
        if (r == 0)
            return 0;
        bool is_hopeless = !is_passing(r) && (!writer->store || r == -EBADMSG);
        if (is_hopeless || (was_stopping && was_last_try(writer, r)))
            return r;
        if (!is_passing(r) && tries >= TRIES_MAX)
            return store_message_may_be_lost(message) ? 1 : r;
        begin_trouble(writer, r, writer->error.text);
        pause_after(writer, r, was_stopping);
    }
}

/* ---- in the thread: all of it ---- */

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
        wait_until(writer, &writer->wake, writer->upkeep.retain_at_ns);
    }
    pthread_mutex_unlock(&writer->lock);
    return work;
}

/* Half of the time to stop in is over: what is left is for how the run ended, which comes last. */
static bool must_hurry(struct store_writer *writer)
{
    return is_stopping(writer) &&
           clock_mono_ns() + writer->options.pace.stop_ns / 2 >= writer->stop_by_ns;
}

/* 0 or a negative errno, after which storing is given up. */
static int write_next(struct store_writer *writer, struct store_message *message)
{
    bool is_left_out = store_message_may_be_lost(message) && must_hurry(writer);
    int r = is_left_out ? 1 : persist(writer, message);
    if (r < 0)
        return r;

    pthread_mutex_lock(&writer->lock);
    store_queue_remove(&writer->queue, message);
    if (r == 1 && message->box)
        store_queue_lose(&writer->queue, message->box);
    else
        writer->report.stored += message->box && tick_stored_snapshot(&message->box->tick);
    bool is_calm = !store_queue_first(&writer->queue);
    bool is_relieved = is_calm && TAKE(writer->was_heavy, false);
    struct tick_loss cost = writer->queue.episode;
    pthread_mutex_unlock(&writer->lock);
    if (r == 0) {
        note_written(writer, message);
        note_success(writer, is_calm, &cost);
    }
    if (message->kind == STORE_MESSAGE_CONFIGURE) {
        /* The store goes by it: that before is free. */
        struct store_message *before = writer->settings;
        writer->settings = message;
        message = before;
    }
    store_message_free(message);
    /* The C library keeps what lies between pieces that are still used. */
    if (is_relieved)
        malloc_trim(0);
    return 0;
}

static void retain(struct store_writer *writer, bool at_the_end)
{
    begin_work(writer);
    int r = at_the_end ? store_upkeep_retain_a_little(&writer->upkeep, writer->store)
                       : store_upkeep_retain(&writer->upkeep, writer->store,
                                             writer->options.pace.retain_every_ns);
    end_work(writer);
    /* Failing to write is told of where it costs a snapshot, and another writer may do this too. */
    if (r < 0 && !is_passing(r))
        write_errors_say(&writer->trouble, "cannot let go of what is old: %s",
                          store_error(writer->store));
}

/* What was lost at the very end has no tick to go with. */
static void write_last_loss(struct store_writer *writer)
{
    _cleanup_(tick_box_freep) struct tick_box *box = tick_box_new();
    if (!box)
        return;

    pthread_mutex_lock(&writer->lock);
    const char *reason = writer->queue.loss_reason;
    struct tick_loss untold = writer->queue.episode;
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
    if (!tick_loss_is_empty(&untold))
        write_errors_tell_cost(&writer->trouble, reason, &untold, writer->queue.interval_seconds,
                                ", at the end");
}

static int write_all(struct store_writer *writer)
{
    struct store_message *message;
    int r = persist(writer, NULL);

    pthread_mutex_lock(&writer->lock);
    writer->is_open = true;
    pthread_mutex_unlock(&writer->lock);
    while (r == 0) {
        switch (await_work(writer, &message)) {
        case WORK_WRITE: r = write_next(writer, message); break;
        case WORK_RETAIN: retain(writer, false); break;
        case WORK_STOP:
            write_last_loss(writer);
            retain(writer, true);
            return 0;
        }
    }
    return r;
}

static void writer_free(struct store_writer *writer)
{
    store_queue_done(&writer->queue);
    store_message_free(writer->settings);
    pthread_mutex_destroy(&writer->lock);
    pthread_cond_destroy(&writer->wake);
    pthread_cond_destroy(&writer->rest);
    arena_done(&writer->arena);
    free(writer);
}

static void *run_thread(void *argument)
{
    struct store_writer *writer = argument;

    if (write_all(writer) < 0)
        give_up(writer);
    if (writer->store && store_close(writer->store) < 0)
        write_errors_say(&writer->trouble, "cannot close the database properly");

    pthread_mutex_lock(&writer->lock);
    writer->is_done = true;
    bool is_abandoned = writer->is_abandoned;
    pthread_cond_broadcast(&writer->rest);
    pthread_mutex_unlock(&writer->lock);
    if (is_abandoned)
        writer_free(writer);
    return NULL;
}

/* ---- start, hold, stop ---- */

static struct store_writer *writer_new(const struct store_writer_options *options)
{
    struct store_writer *writer = calloc(1, sizeof(*writer));
    pthread_condattr_t monotonic;
    if (!writer)
        return NULL;

    store_queue_init(&writer->queue, options->store.interval_seconds, write_errors_reason(-ETIME));
    writer->trouble.on_notice = options->on_notice;
    writer->trouble.context = options->context;
    pthread_mutex_init(&writer->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&writer->wake, &monotonic);
    pthread_cond_init(&writer->rest, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (store_writer_options_copy(options, &writer->arena, &writer->options) < 0) {
        writer_free(writer);
        return NULL;
    }
    return writer;
}

/* Signals are for the loop: none reaches this thread. */
static int start_thread(struct store_writer *writer)
{
    pthread_attr_t attributes;
    sigset_t all, before;

    int r = pthread_attr_init(&attributes);
    if (r)
        return -r;
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    r = pthread_create(&writer->thread, &attributes, run_thread, writer);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return -r;
}

int store_writer_start(const struct store_writer_options *options, struct store_writer **ret)
{
    struct store_writer *writer = writer_new(options);
    if (!writer)
        return -ENOMEM;

    int r = start_thread(writer);
    if (r < 0) {
        writer_free(writer);
        return r;
    }
    *ret = writer;
    return 0;
}

void store_writer_hold(struct store_writer *writer)
{
    uint64_t until_ns = clock_mono_ns() + HOLD_NS;

    pthread_mutex_lock(&writer->lock);
    writer->is_held = true;
    while (writer->is_busy && wait_until(writer, &writer->rest, until_ns))
        ;
    pthread_mutex_unlock(&writer->lock);
}

void store_writer_release(struct store_writer *writer)
{
    pthread_mutex_lock(&writer->lock);
    writer->is_held = false;
    pthread_cond_signal(&writer->wake);
    pthread_mutex_unlock(&writer->lock);
}

/* The thread hangs in a call that does not return. If it returns after all, the thread writes what
 * waits or stores it as a gap: the queue does not count it as lost here, only the report does. The
 * lock is held. */
static void abandon(struct store_writer *writer)
{
    writer->is_abandoned = true;
    write_errors_silence(&writer->trouble);
    snprintf(writer->report.error, sizeof(writer->report.error),
             "the disk of %s does not answer, and was not waited for any longer",
             writer->options.store.path);
}

/* The lock is held. */
static void fill_report(const struct store_writer *writer, struct store_report *ret)
{
    *ret = writer->report;
    ret->dropped = writer->queue.dropped;
    ret->events_lost = writer->queue.events_lost;
    if (!ret->error[0] && (ret->dropped || ret->events_lost))
        snprintf(ret->error, sizeof(ret->error), "%s", writer->queue.loss_reason);
}

bool store_writer_wait(struct store_writer *writer, uint64_t max_ns)
{
    uint64_t now_ns = clock_mono_ns(), until_ns = now_ns + max_ns;

    pthread_mutex_lock(&writer->lock);
    uint64_t last = writer->queue.pushed; /* what others add meanwhile is theirs to wait for */
    while ((!writer->is_open || writer->queue.removed < last) && !writer->is_done &&
           now_ns < until_ns) {
        wait_until(writer, &writer->rest, MIN(now_ns + WAIT_STEP_NS, until_ns));
        now_ns = clock_mono_ns();
    }
    bool is_written = writer->is_open && writer->queue.removed >= last;
    pthread_mutex_unlock(&writer->lock);
    return is_written;
}

void store_writer_ask(struct store_writer *writer, struct store_report *ret)
{
    pthread_mutex_lock(&writer->lock);
    fill_report(writer, ret);
    /* What goes on, not what is over. */
    if (!writer->report.error[0])
        snprintf(ret->error, sizeof(ret->error), "%s", writer->told.text);
    pthread_mutex_unlock(&writer->lock);
}

static uint64_t cpu_time_ns(pthread_t thread)
{
    struct timespec used = {0};
    clockid_t clock;

    if (pthread_getcpuclockid(thread, &clock) == 0)
        clock_gettime(clock, &used);
    return (uint64_t)used.tv_sec * NS_PER_SEC + (uint64_t)used.tv_nsec;
}

/* Until the thread has ended, or hangs; whether it has ended. One that still uses CPU time does not
 * hang: it gets too little of it, or waits for another writer. The lock is held. */
static bool await_end(struct store_writer *writer, uint64_t at_most_until_ns)
{
    uint64_t step_ns = writer->options.pace.stop_ns / 6, until_ns = writer->stop_by_ns + step_ns;

    while (!writer->is_done && wait_until(writer, &writer->rest, writer->stop_by_ns))
        ;
    for (; !writer->is_done && until_ns <= at_most_until_ns; until_ns += step_ns) {
        uint64_t before_ns = cpu_time_ns(writer->thread);
        while (!writer->is_done && wait_until(writer, &writer->rest, until_ns))
            ;
        if (!writer->is_done && cpu_time_ns(writer->thread) == before_ns)
            break;
    }
    return writer->is_done;
}

void store_writer_stop(struct store_writer *writer, struct store_report *ret)
{
    const struct store_writer_options options = writer->options;
    pthread_t thread = writer->thread;
    uint64_t now_ns = clock_mono_ns();

    pthread_mutex_lock(&writer->lock);
    writer->is_stopping = true;
    writer->is_held = false;
    /* The thread gives up in time by itself: only a disk that hangs is abandoned. */
    writer->stop_by_ns = now_ns + options.pace.stop_ns / 6 * 5;
    pthread_cond_signal(&writer->wake);
    bool is_done = await_end(writer, now_ns + STOP_TIMES_MAX * options.pace.stop_ns);
    if (!is_done)
        abandon(writer);
    fill_report(writer, ret);
    if (!is_done)
        store_queue_add_waiting(&writer->queue, &ret->dropped, &ret->events_lost);
    pthread_mutex_unlock(&writer->lock);

    if (is_done) {
        pthread_join(thread, NULL);
        writer_free(writer);
        return;
    }
    pthread_detach(thread);
    if (options.on_notice) {
        char text[sizeof(ret->error) + 64];
        snprintf(text, sizeof(text), "not stored to the end: %s", ret->error);
        options.on_notice(options.context, text);
    }
}
