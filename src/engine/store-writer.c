/* How it is arranged: the caller's thread only ever takes the lock for as long as a pointer is
 * queued. What the thread writes stays at the head of the queue until it is written, so that the
 * order holds whatever has to be tried again. `persist()` is where failures are dealt with. */
#include "engine/store-writer.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/human.h"
#include "base/macros.h"
#include "engine/store-message.h"
#include "engine/tick-loss.h"

/* Of what the thread needs, SQLite needs most, some 50 KiB. Untouched pages cost nothing, and
 * sanitizers multiply it. */
#define STACK_BYTES (512 * 1024)

/* A full disk stays so until somebody makes room: seconds are soon enough, and cost nothing. */
#define RETRY_NS (5 * NS_PER_SEC)
/* The store has waited itself before it says so. */
#define RETRY_BUSY_NS (NS_PER_SEC / 4)
/* Other failures, such as of a disk, may pass; a tick that cannot be written must not keep the
 * others waiting for ever. */
#define TRIES_MAX 3

#define RETAIN_EVERY_NS (3600 * NS_PER_SEC)
/* After it was cut short because ticks were waiting. */
#define RETAIN_AGAIN_NS NS_PER_SEC
/* What a run that ends gives to it, if it is due: not to be felt, and not for nothing. */
#define RETAIN_SLICE_NS (20 * NS_PER_MSEC)

/* What a person waits for without wondering, when a command has ended. */
#define STOP_NS (3 * NS_PER_SEC)
/* A transaction takes milliseconds; whoever stops the process will not wait for a disk that hangs.
 */
#define HOLD_NS (NS_PER_SEC / 2)

struct store_writer {
    /* only read once the thread runs */
    struct store_writer_options options;
    struct text_list redact;
    struct arena arena; /* holds the texts of these */
    pthread_t thread;

    /* for both threads */
    pthread_mutex_t lock;
    pthread_cond_t wake; /* there is something to do */
    pthread_cond_t rest; /* nothing is being written, or all of it is done */
    TAILQ_HEAD(, store_message) queue;
    size_t ticks_waiting;
    struct tick_loss loss;    /* that the store does not know of yet */
    struct tick_loss episode; /* since writing last went well */
    const char *loss_reason;  /* why ticks are being lost */
    bool is_stopping;
    uint64_t stop_by_ns; /* on the monotonic clock: nothing is waited for any longer */
    bool is_held;
    bool is_busy;
    bool has_given_up;
    bool is_done;
    bool is_abandoned; /* the thread frees the writer when it ends after all */
    struct store_report report;

    /* the thread's own */
    struct store *store;
    struct store_error error; /* of the last failure */
    int trouble;              /* that was told of; 0: none, -ETIME: too slow */
    uint64_t make_room_at_ns; /* at the earliest */
    bool is_retaining;
    bool has_retained; /* to the end, or another has */
    uint64_t retain_at_ns;
    uint64_t retain_at_least_until_ns;
    int log_error;
};

/* ---- small things ---- */

static _printf_(2, 3) void say(struct store_writer *writer, const char *format, ...)
{
    char text[sizeof(struct store_error) + 256];
    va_list arguments;

    pthread_mutex_lock(&writer->lock);
    bool is_abandoned = writer->is_abandoned;
    pthread_mutex_unlock(&writer->lock);
    if (is_abandoned || !writer->options.on_notice)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    writer->options.on_notice(writer->options.context, text);
}

/* Waits until it is signalled or the monotonic clock says so; false if it does. */
static bool wait_until(struct store_writer *writer, pthread_cond_t *condition, uint64_t mono_ns)
{
    const struct timespec until = {.tv_sec = (time_t)(mono_ns / NS_PER_SEC),
                                   .tv_nsec = (long)(mono_ns % NS_PER_SEC)};

    return pthread_cond_timedwait(condition, &writer->lock, &until) == 0;
}

/* ---- losses ---- */

static double interval_of(const struct store_writer *writer)
{
    return writer->options.store.interval_seconds;
}

/* Without memory the gaps are the next tick's. The lock is held. */
static void move_loss(struct store_writer *writer, struct tick_box *box)
{
    if (!tick_loss_is_empty(&writer->loss))
        tick_loss_move(&writer->loss, interval_of(writer), writer->loss_reason, box);
}

/* The lock is held. */
static void count_lost(struct store_writer *writer, const struct tick_box *box)
{
    tick_loss_add_gaps(&writer->loss, box);
    tick_loss_add(&writer->loss, box);
    tick_loss_add(&writer->episode, box);
    writer->report.dropped += box->tick.snapshot != NULL;
    writer->report.events_lost += box->tick.events.count;
}

/* ---- the queue ---- */

/* The lock is held. */
static void pop(struct store_writer *writer, struct store_message *message)
{
    TAILQ_REMOVE(&writer->queue, message, neighbours);
    writer->ticks_waiting -= message->kind == STORE_MESSAGE_TICK;
}

static int push(struct store_writer *writer, struct store_message *message)
{
    if (!message)
        return -ENOMEM;
    pthread_mutex_lock(&writer->lock);
    if (writer->has_given_up) {
        store_message_free(message);
    } else {
        TAILQ_INSERT_TAIL(&writer->queue, message, neighbours);
        pthread_cond_signal(&writer->wake);
    }
    pthread_mutex_unlock(&writer->lock);
    return 0;
}

void store_writer_tick(struct store_writer *writer, struct tick_box *box)
{
    pthread_mutex_lock(&writer->lock);
    bool has_room = !writer->has_given_up && writer->ticks_waiting < STORE_QUEUE_MAX;
    struct store_message *message = has_room ? store_message_of_tick(box) : NULL;
    if (message) {
        move_loss(writer, box);
        TAILQ_INSERT_TAIL(&writer->queue, message, neighbours);
        writer->ticks_waiting++;
        pthread_cond_signal(&writer->wake);
    } else {
        count_lost(writer, box);
    }
    pthread_mutex_unlock(&writer->lock);
    if (!message)
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

/* ---- in the thread: writing ---- */

/* Asked by the store: ticks go before retention, and so does whoever wants to be gone. */
static bool should_stop(void *context)
{
    struct store_writer *writer = context;

    pthread_mutex_lock(&writer->lock);
    uint64_t now_ns = clock_mono_ns();
    bool is_late = writer->is_stopping && now_ns >= writer->stop_by_ns;
    bool is_wanted =
        writer->is_stopping || writer->is_held || writer->ticks_waiting > STORE_QUEUE_MAX / 2;
    pthread_mutex_unlock(&writer->lock);
    return is_late ||
           (writer->is_retaining && is_wanted && now_ns >= writer->retain_at_least_until_ns);
}

static int open_store(struct store_writer *writer)
{
    struct store_options options = writer->options.store;

    options.should_stop = should_stop;
    options.context = writer;
    int r = store_open(&options, &writer->store, &writer->error);
    if (r == 0 && store_moved_from(writer->store))
        say(writer,
            "%s is on a network filesystem, which a database cannot be shared on: it is"
            " kept in %s",
            store_moved_from(writer->store), store_path(writer->store));
    return r;
}

static void check_log(struct store_writer *writer)
{
    const char *path = writer->options.store.jsonl_path;
    int error = store_jsonl_error(writer->store);

    if (error && !writer->log_error)
        say(writer, "cannot write to %s: %s; it is tried again at every snapshot", path,
            strerror(-error));
    if (!error && writer->log_error)
        say(writer, "%s is written again", path);
    writer->log_error = error;
}

static void note_begun_job(struct store_writer *writer, const struct store_message *message)
{
    pthread_mutex_lock(&writer->lock);
    strcpy(writer->report.job_id, message->job_id);
    pthread_mutex_unlock(&writer->lock);
    if (strcmp(message->job_id, message->job.job_id) != 0)
        say(writer, "a run of '%s' is still going on: this one is called '%s'", message->job.job_id,
            message->job_id);
}

static void note_written(struct store_writer *writer, const struct store_message *message)
{
    if (message->kind == STORE_MESSAGE_BEGIN_JOB)
        note_begun_job(writer, message);
    if (message->kind == STORE_MESSAGE_TICK)
        check_log(writer);
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
    uint64_t now_ns = clock_mono_ns();

    if ((writer->trouble && writer->trouble != -ETIME) || now_ns < writer->make_room_at_ns)
        return false;
    writer->make_room_at_ns = now_ns + writer->options.pace.retry_ns;
    return true;
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
    }
    end_work(writer);
    return r;
}

/* ---- in the thread: trouble ---- */

static const char *reason_of(int error)
{
    switch (error) {
    case -ENOSPC: return "the disk was full";
    case -EBUSY: return "another process held the database";
    case -ETIME: return "the disk was too slow";
    default: return "the database could not be written";
    }
}

static void begin_trouble(struct store_writer *writer, int error, const char *words)
{
    /* A disk that got full is more than one that was slow before. */
    if (writer->trouble && (writer->trouble != -ETIME || error == -ETIME))
        return;
    pthread_mutex_lock(&writer->lock);
    bool is_stopping = writer->is_stopping;
    writer->loss_reason = reason_of(error);
    pthread_mutex_unlock(&writer->lock);
    if (is_stopping) /* then only how it ends is of interest */
        return;
    writer->trouble = error;
    say(writer, "%s; sampling goes on", words);
}

static void tell_cost(struct store_writer *writer, const char *before, const struct tick_loss *cost,
                      const char *after)
{
    struct human count, seconds;

    say(writer, "%s; %s snapshot%s (%s) %s not stored%s", before,
        human_count(&count, cost->snapshots), cost->snapshots == 1 ? "" : "s",
        human_duration(&seconds, tick_loss_seconds(cost, interval_of(writer))),
        cost->snapshots == 1 ? "was" : "were", after);
}

static void end_trouble(struct store_writer *writer, const struct tick_loss *cost)
{
    writer->trouble = 0;
    if (cost->snapshots)
        tell_cost(writer, "writing again", cost, "");
    else
        say(writer, "writing again; no snapshot was lost");
}

/* Something was written. Trouble is over when nothing waits any more, because then no more is lost.
 */
static void note_success(struct store_writer *writer, bool is_calm)
{
    pthread_mutex_lock(&writer->lock);
    struct tick_loss cost = writer->episode;
    pthread_mutex_unlock(&writer->lock);

    if (!tick_loss_is_empty(&cost))
        begin_trouble(writer, -ETIME, "the disk is too slow to store every snapshot");
    if (!writer->trouble || !is_calm) /* what was not told of is told at the end */
        return;
    end_trouble(writer, &cost);
    pthread_mutex_lock(&writer->lock);
    writer->episode = (struct tick_loss){0};
    pthread_mutex_unlock(&writer->lock);
}

/* Nothing is stored from now on. */
static void give_up(struct store_writer *writer)
{
    pthread_mutex_lock(&writer->lock);
    const char *how = !writer->report.job_id[0] && !writer->report.stored ? "not stored"
                      : writer->is_stopping                               ? "not stored to the end"
                                                                          : "no longer stored";
    writer->has_given_up = true;
    snprintf(writer->report.error, sizeof(writer->report.error), "%s", writer->error.text);
    for (struct store_message *message; (message = TAILQ_FIRST(&writer->queue));) {
        pop(writer, message);
        if (message->box)
            count_lost(writer, message->box);
        store_message_free(message);
    }
    pthread_mutex_unlock(&writer->lock);
    say(writer, "%s: %s", how, writer->error.text);
}

static bool is_stopping(struct store_writer *writer)
{
    pthread_mutex_lock(&writer->lock);
    bool is_asked = writer->is_stopping;
    pthread_mutex_unlock(&writer->lock);
    return is_asked;
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
            return message->kind == STORE_MESSAGE_TICK ? 1 : r;
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
        *ret = TAILQ_FIRST(&writer->queue);
        work = *ret ? WORK_WRITE : writer->is_stopping ? WORK_STOP : WORK_RETAIN;
        if (work != WORK_RETAIN || clock_mono_ns() >= writer->retain_at_ns)
            break;
        wait_until(writer, &writer->wake, writer->retain_at_ns);
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
    bool is_left_out = message->kind == STORE_MESSAGE_TICK && must_hurry(writer);
    int r = is_left_out ? 1 : persist(writer, message);
    if (r < 0)
        return r;

    pthread_mutex_lock(&writer->lock);
    pop(writer, message);
    if (r == 1)
        count_lost(writer, message->box);
    else
        writer->report.stored += message->box && message->box->tick.snapshot;
    bool is_calm = TAILQ_EMPTY(&writer->queue);
    pthread_mutex_unlock(&writer->lock);
    if (r == 0) {
        note_written(writer, message);
        note_success(writer, is_calm);
    }
    store_message_free(message);
    return 0;
}

static void retain(struct store_writer *writer)
{
    double now = ns_to_sec(clock_real_ns());
    int r = 0;

    begin_work(writer);
    if (!store_retained_lately(writer->store, now)) {
        writer->is_retaining = true;
        r = store_retain(writer->store, now);
        writer->is_retaining = false;
    }
    end_work(writer);
    /* Failing to write is told of where it costs a snapshot, and another writer may do this too. */
    if (r < 0 && !is_passing(r))
        say(writer, "cannot let go of what is old: %s", store_error(writer->store));
    writer->has_retained = r == 0;
    writer->retain_at_ns =
        clock_mono_ns() + (r == 1 ? RETAIN_AGAIN_NS : writer->options.pace.retain_every_ns);
}

/* Where all runs are short, nobody ever has the time: then each gives a little of its own. */
static void retain_a_little(struct store_writer *writer)
{
    if (writer->has_retained)
        return;
    writer->retain_at_least_until_ns = clock_mono_ns() + RETAIN_SLICE_NS;
    retain(writer);
}

/* What was lost at the very end has no tick to go with. */
static void write_last_loss(struct store_writer *writer)
{
    _cleanup_(tick_box_freep) struct tick_box *box = tick_box_new();
    if (!box)
        return;

    pthread_mutex_lock(&writer->lock);
    const char *reason = writer->loss_reason;
    struct tick_loss untold = writer->episode;
    move_loss(writer, box);
    pthread_mutex_unlock(&writer->lock);
    if (box->tick.gaps.count)
        store_write_tick(writer->store, &box->tick);
    if (untold.snapshots)
        tell_cost(writer, reason, &untold, ", at the end");
}

static int write_all(struct store_writer *writer)
{
    struct store_message *message;
    int r = persist(writer, NULL);

    while (r == 0) {
        switch (await_work(writer, &message)) {
        case WORK_WRITE: r = write_next(writer, message); break;
        case WORK_RETAIN: retain(writer); break;
        case WORK_STOP:
            write_last_loss(writer);
            retain_a_little(writer);
            return 0;
        }
    }
    return r;
}

static void writer_free(struct store_writer *writer)
{
    for (struct store_message *message; (message = TAILQ_FIRST(&writer->queue));) {
        pop(writer, message);
        store_message_free(message);
    }
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
        say(writer, "cannot close the database properly");

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

static int copy_options(struct store_writer *writer, const struct store_writer_options *options)
{
    struct store_options *store = &writer->options.store;
    const char **texts[] = {&store->path, &store->jsonl_path, &store->host, &store->boot_id,
                            &store->collector};
    const struct text_list none = {0};
    const struct text_list *redact = options->store.redact ? options->store.redact : &none;

    writer->options = *options;
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        if (*texts[i] && !(*texts[i] = arena_strdup(&writer->arena, *texts[i])))
            return -ENOMEM;

    writer->redact.items =
        arena_alloc(&writer->arena, (redact->count + 1) * sizeof(*writer->redact.items));
    if (!writer->redact.items)
        return -ENOMEM;
    for (; writer->redact.count < redact->count; writer->redact.count++) {
        char *word = arena_strdup(&writer->arena, redact->items[writer->redact.count]);
        if (!word)
            return -ENOMEM;
        writer->redact.items[writer->redact.count] = word;
    }
    store->redact = &writer->redact;
    return 0;
}

static void set_default(uint64_t *value, uint64_t usual)
{
    if (!*value)
        *value = usual;
}

static struct store_writer *writer_new(const struct store_writer_options *options)
{
    struct store_writer *writer = calloc(1, sizeof(*writer));
    pthread_condattr_t monotonic;
    if (!writer)
        return NULL;

    TAILQ_INIT(&writer->queue);
    writer->loss_reason = reason_of(-ETIME);
    pthread_mutex_init(&writer->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&writer->wake, &monotonic);
    pthread_cond_init(&writer->rest, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (copy_options(writer, options) < 0) {
        writer_free(writer);
        return NULL;
    }
    struct store_pace *pace = &writer->options.pace;
    set_default(&pace->retry_ns, RETRY_NS);
    set_default(&pace->retry_busy_ns, RETRY_BUSY_NS);
    set_default(&pace->retain_every_ns, RETAIN_EVERY_NS);
    set_default(&pace->stop_ns, STOP_NS);
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

/* The thread hangs in a call that does not come back: what waits is lost, unless it does yet. The
 * lock is held. */
static void abandon(struct store_writer *writer)
{
    struct store_message *message;

    writer->is_abandoned = true;
    TAILQ_FOREACH (message, &writer->queue, neighbours)
        if (message->box)
            count_lost(writer, message->box);
    snprintf(writer->report.error, sizeof(writer->report.error),
             "the disk of %s does not answer, and was not waited for any longer",
             writer->options.store.path);
}

static void describe_losses(struct store_writer *writer)
{
    struct store_report *report = &writer->report;

    if (!report->error[0] && (report->dropped || report->events_lost))
        snprintf(report->error, sizeof(report->error), "%s", writer->loss_reason);
}

void store_writer_stop(struct store_writer *writer, struct store_report *ret)
{
    const struct store_writer_options options = writer->options;
    pthread_t thread = writer->thread;
    uint64_t now_ns = clock_mono_ns();

    pthread_mutex_lock(&writer->lock);
    writer->is_stopping = true;
    writer->is_held = false;
    /* Whoever can tell the time gives up in time: only a disk that hangs is abandoned. */
    writer->stop_by_ns = now_ns + options.pace.stop_ns / 6 * 5;
    pthread_cond_signal(&writer->wake);
    while (!writer->is_done && wait_until(writer, &writer->rest, now_ns + options.pace.stop_ns))
        ;
    bool is_done = writer->is_done;
    if (!is_done)
        abandon(writer);
    describe_losses(writer);
    *ret = writer->report;
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
