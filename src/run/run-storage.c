#include "run/run-storage.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/macros.h"
#include "loop/fd-watch.h"
#include "model/record-copy.h"
#include "run/run-record.h"

/* A daemon answers in milliseconds, even during a snapshot; one that does not hangs. */
#define ANSWER_NS NS_PER_SEC
/* Ticks that wait for that answer: more than there are in that time at the shortest interval. */
#define WAITING_MAX 128
/* Recent ticks, in case the daemon dies: it stores a tick within half a second. */
#define RECENT_MAX 16
/* How long to wait until the events are on the disk, before the end of the run is reported. */
#define EVENTS_WAIT_NS (2 * NS_PER_SEC)
/* Time between two attempts to find a daemon; an attempt costs one system call. */
#define ASK_AGAIN_NS NS_PER_SEC

struct run_storage {
    const struct job_run_options *options;
    const struct run_backend *backend; /* NULL: no daemon */
    uv_loop_t *loop;
    struct moment started;
    pid_t pid;
    struct arena arena; /* owns the texts of `job` */
    struct job job;     /* as it began */
    bool has_job;

    enum backend_state state;
    bool was_kept;     /* the run was stored before, by a daemon or here */
    uint64_t asked_ns; /* monotonic time of the last offer */
    struct fd_watch *watch;
    struct store_writer *writer; /* NULL: nothing is stored here */
    bool has_begun;              /* the writer has the run; else only events */
    struct tick_box *waiting[WAITING_MAX];
    size_t waiting_count;
    struct tick_box *recent[RECENT_MAX];    /* a ring: ticks that the daemon may not have stored */
    size_t recent_count;                    /* in all */
    char job_id[JOB_ID_NUMBERED_MAX_BYTES]; /* given by the daemon or the store; "": none */
};

/* ---- storing directly ---- */

static void notify(const struct run_storage *storage, const char *text)
{
    if (storage->options->on_notice)
        storage->options->on_notice(storage->options->context, text);
}

static int begin_record(struct run_storage *storage)
{
    const struct job_run_options *options = storage->options;
    struct sheet sheet;

    int r = store_writer_begin_job(storage->writer, &storage->job);
    if (r < 0 || !int_is_known(options->sheet_num))
        return r;
    run_record_sheet(options->run_id, options->sheet_num, storage->job.started_at, &sheet);
    return store_writer_sheet(storage->writer, &sheet);
}

static void set_name(struct run_storage *storage, const char *job_id)
{
    if (job_id && job_id[0])
        snprintf(storage->job_id, sizeof(storage->job_id), "%s", job_id);
}

static void stop_storing(struct run_storage *storage)
{
    struct store_report report;

    if (!storage->writer)
        return;
    store_writer_stop(TAKE_PTR(storage->writer), &report);
    storage->has_begun = false;
    set_name(storage, report.job_id);
}

static int open_writer(struct run_storage *storage)
{
    const struct job_run_options *options = storage->options;
    struct store_writer_options writer = {
        .store = *options->store, .on_notice = options->on_notice, .context = options->context};

    if (!storage->has_job)
        return -ENOMEM;
    int r = run_record_session(options, &storage->arena, &writer.store);
    return r < 0 ? r : store_writer_start(&writer, &storage->writer);
}

static void report_failed_start(const struct run_storage *storage, int error)
{
    char text[128];

    snprintf(text, sizeof(text), "not stored: cannot start a thread: %s", strerror(-error));
    notify(storage, text);
}

static void start_storing(struct run_storage *storage)
{
    int r = 0;

    if (!storage->options->store || storage->has_begun)
        return;
    if (!storage->writer)
        r = open_writer(storage);
    if (r == 0 && (r = begin_record(storage)) < 0)
        stop_storing(storage);
    if (r < 0)
        report_failed_start(storage, r);
    else
        storage->has_begun = true;
}

static void add_recent(struct run_storage *storage, struct tick_box *box)
{
    struct tick_box **place = &storage->recent[storage->recent_count++ % RECENT_MAX];

    tick_box_free(*place);
    *place = box;
}

static void drop_recent(struct run_storage *storage)
{
    for (size_t i = 0; i < RECENT_MAX; i++) {
        tick_box_free(storage->recent[i]);
        storage->recent[i] = NULL;
    }
    storage->recent_count = 0;
}

/* The daemon is gone: stores the recent ticks here. The store ignores duplicates. */
static void store_recent(struct run_storage *storage)
{
    size_t kept = MIN(storage->recent_count, (size_t)RECENT_MAX);

    for (size_t i = storage->recent_count - kept; i < storage->recent_count; i++) {
        struct tick_box *box = TAKE_PTR(storage->recent[i % RECENT_MAX]);
        if (storage->writer)
            store_writer_tick(storage->writer, box);
        else
            tick_box_free(box);
    }
    storage->recent_count = 0;
}

static void store_tick(struct run_storage *storage, struct tick_box *box)
{
    if (!storage->writer) {
        add_recent(storage, box); /* the daemon has its own samples */
        return;
    }
    if (storage->state == BACKEND_ACTIVE)
        tick_box_keep_lifecycle(box, storage->job.run_id);
    store_writer_tick(storage->writer, box);
}

static void release_waiting(struct run_storage *storage)
{
    for (size_t i = 0; i < storage->waiting_count; i++)
        store_tick(storage, storage->waiting[i]);
    storage->waiting_count = 0;
}

/* ---- the daemon ---- */

static void on_input(void *context, int fd);

static void stop_watching(struct run_storage *storage)
{
    if (storage->watch)
        fd_watch_close(TAKE_PTR(storage->watch));
}

static void report_job_name(struct run_storage *storage)
{
    const char *job_id = storage->backend->get_job_id(storage->backend->context);
    char text[3 * JOB_ID_NUMBERED_MAX_BYTES];

    if (!job_id || strcmp(job_id, storage->job_id) == 0)
        return;
    bool is_other = strcmp(job_id, storage->options->job_id) != 0;
    set_name(storage, job_id);
    if (!is_other)
        return;
    snprintf(text, sizeof(text), "a run of '%s' is still active: this one is called '%s'",
             storage->options->job_id, job_id);
    notify(storage, text);
}

/* Enters a state: opens or closes the writer, and releases the waiting ticks. */
static void enter_state(struct run_storage *storage, enum backend_state state)
{
    storage->state = state;
    if (state == BACKEND_ASKED)
        return;
    storage->was_kept = true;
    if (state == BACKEND_ACTIVE) {
        report_job_name(storage);
        storage->has_begun = false; /* in case the daemon goes away */
        if (storage->backend->has_events(storage->backend->context)) {
            stop_storing(storage);
        } else if (!storage->writer) {
            int r = open_writer(storage);
            if (r < 0)
                report_failed_start(storage, r);
        }
    } else {
        stop_watching(storage);
        storage->backend->leave(storage->backend->context);
        start_storing(storage);
        store_recent(storage);
    }
    release_waiting(storage);
}

/* Updates the name of the run: the store may have given it another one. */
static void read_stored_name(struct run_storage *storage)
{
    struct store_report report;

    if (!storage->writer)
        return;
    store_writer_report(storage->writer, &report);
    set_name(storage, report.job_id);
    if (storage->job_id[0])
        storage->job.job_id = storage->job_id;
}

static void offer_run(struct run_storage *storage)
{
    const struct run_backend *backend = storage->backend;

    storage->asked_ns = clock_mono_ns();
    read_stored_name(storage);
    enum backend_state state =
        backend->offer(backend->context, &storage->job, storage->pid, storage->options->sheet_num,
                       storage->was_kept, storage->writer != NULL);
    if (state != BACKEND_ABSENT && fd_watch_start(storage->loop, backend->get_fd(backend->context),
                                                  false, on_input, storage, &storage->watch) < 0)
        state = BACKEND_ABSENT;
    enter_state(storage, state);
}

static void check_answer(struct run_storage *storage)
{
    enum backend_state state = storage->backend->check(storage->backend->context);

    if (state == BACKEND_ASKED && clock_mono_ns() - storage->asked_ns > ANSWER_NS)
        state = BACKEND_ABSENT;
    if (state != storage->state)
        enter_state(storage, state);
}

static void on_input(void *context, int fd _unused_)
{
    check_answer(context);
}

/* A daemon may have appeared, gone, or not answered for too long. */
static void check_daemon(struct run_storage *storage)
{
    if (!storage->backend)
        return;
    if (storage->state != BACKEND_ABSENT)
        check_answer(storage);
    else if (clock_mono_ns() - storage->asked_ns > ASK_AGAIN_NS)
        offer_run(storage);
}

/* ---- life cycle ---- */

struct run_storage *run_storage_begin(uv_loop_t *loop, const struct job_run_options *options,
                                      const struct moment *started, pid_t pid)
{
    struct run_storage *storage = calloc(1, sizeof(*storage));
    if (!storage)
        return NULL;

    storage->options = options;
    storage->loop = loop;
    storage->started = *started;
    storage->pid = pid;
    storage->has_job =
        run_record_begin(options, ns_to_sec(started->real_ns), &storage->arena, &storage->job) == 0;
    if (loop && options->store && options->backend && storage->has_job)
        storage->backend = options->backend;
    if (storage->backend)
        offer_run(storage);
    else
        start_storing(storage);
    return storage;
}

bool run_storage_is_local(const struct run_storage *storage)
{
    return storage->state == BACKEND_ABSENT;
}

bool run_storage_keeps_events(const struct run_storage *storage)
{
    return storage->writer != NULL;
}

bool run_storage_has_daemon(const struct run_storage *storage)
{
    return storage->state == BACKEND_ACTIVE;
}

void run_storage_tick(struct run_storage *storage, struct tick_box *box)
{
    check_daemon(storage);
    if (storage->waiting_count == WAITING_MAX) /* it had enough time to answer */
        enter_state(storage, BACKEND_ABSENT);
    if (storage->state == BACKEND_ASKED && !storage->writer)
        storage->waiting[storage->waiting_count++] = box;
    else
        store_tick(storage, box);
}

void run_storage_signalled(struct run_storage *storage, pid_t pid, const struct process_event *sent)
{
    if (storage->backend && storage->state != BACKEND_ABSENT)
        storage->backend->signalled(storage->backend->context, pid, sent);
}

void run_storage_hold(struct run_storage *storage)
{
    if (storage->writer)
        store_writer_hold(storage->writer);
}

void run_storage_release(struct run_storage *storage)
{
    if (storage->writer)
        store_writer_release(storage->writer);
}

static void end_record(struct run_storage *storage, const struct run_summary *summary,
                       const struct job *job)
{
    struct sheet sheet;

    if (int_is_known(summary->sheet_num)) {
        run_record_sheet_end(summary, job->ended_at, &sheet);
        store_writer_sheet(storage->writer, &sheet);
    }
    store_writer_finish_job(storage->writer, job);
}

/* Copies the cause that the daemon reported. Without memory, the cause of the summary is used. */
static void copy_cause(const struct run_backend *backend, struct arena *arena,
                       struct run_storage_end *ret)
{
    struct job reported, copy;

    record_init(&job_record, &reported);
    reported.cause = backend->get_cause(backend->context, &reported.chain);
    if (!reported.cause || record_copy(&job_record, &reported, arena, &copy) < 0)
        return;
    ret->cause = copy.cause;
    ret->chain = copy.chain;
}

/* Returns whether the daemon stored the end of the run. */
static bool finish_at_daemon(struct run_storage *storage, const struct job *job,
                             struct arena *arena, struct run_storage_end *ret)
{
    const struct run_backend *backend = storage->backend;

    if (!backend || storage->state != BACKEND_ACTIVE)
        return false;
    if (storage->writer) /* the daemon counts the stored events when the run ends */
        store_writer_wait(storage->writer, EVENTS_WAIT_NS);
    int r = backend->finish(backend->context, job);
    if (r < 0)
        return false;
    report_job_name(storage);
    copy_cause(backend, arena, ret);
    return true;
}

void run_storage_finish(struct run_storage *storage, struct tick_box *last,
                        const struct run_summary *summary, double ended_at, struct arena *arena,
                        struct run_storage_end *ret)
{
    struct job job;

    *ret = (struct run_storage_end){.cause = NULL};

    if (summary)
        run_record_end(summary, ended_at, &job);
    stop_watching(storage);
    if (storage->state == BACKEND_ASKED)
        enter_state(storage, storage->backend->await_answer(storage->backend->context));
    if (storage->state == BACKEND_ACTIVE && storage->writer && last)
        store_tick(storage, TAKE_PTR(last));
    if (!summary || !finish_at_daemon(storage, &job, arena, ret)) {
        start_storing(storage);
        store_recent(storage);
        if (storage->writer && last)
            store_writer_tick(storage->writer, TAKE_PTR(last));
        if (storage->writer && summary)
            end_record(storage, summary, &job);
    }
    stop_storing(storage);
    if (storage->backend)
        storage->backend->leave(storage->backend->context);
    drop_recent(storage);
    tick_box_free(last);
    strcpy(ret->job_id, storage->job_id);
    arena_done(&storage->arena);
    free(storage);
}
