#include "run/run-custody.h"

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

/* A daemon in the middle of a snapshot answers in milliseconds; one that does not is stopped. */
#define ANSWER_NS NS_PER_SEC
/* Ticks that wait for that answer: more than come in that time at the shortest interval. */
#define WAITING_MAX 128
/* Ticks that are held while a daemon keeps the run: it stores what it sees within half a second. */
#define RECENT_MAX 16
/* Until events are on the disk before the end of the run: a disk that takes longer hangs. */
#define EVENTS_WAIT_NS (2 * NS_PER_SEC)
/* Between two looks for a daemon: one system call. */
#define ASK_AGAIN_NS NS_PER_SEC

struct run_custody {
    const struct job_run_options *options;
    const struct run_keeper *keeper; /* NULL: no daemon is asked */
    uv_loop_t *loop;
    struct moment started;
    pid_t pid;
    struct arena arena; /* holds what `job` points to */
    struct job job;     /* as it began */
    bool has_job;

    enum keeper_state state;
    bool was_kept;     /* by a daemon, or here */
    uint64_t asked_ns; /* monotonic: when it was last asked */
    struct fd_watch *watch;
    struct store_writer *writer; /* NULL: nothing is stored here */
    bool has_begun;              /* the writer has the run, too; else it gets events only */
    struct tick_box *waiting[WAITING_MAX];
    size_t waiting_count;
    struct tick_box *recent[RECENT_MAX];    /* a ring: what a daemon may not have got to the disk */
    size_t recent_count;                    /* that there have been */
    char job_id[JOB_ID_NUMBERED_MAX_BYTES]; /* that others have given it; "": none */
};

/* ---- storing it here ---- */

static void tell(const struct run_custody *custody, const char *text)
{
    if (custody->options->on_notice)
        custody->options->on_notice(custody->options->context, text);
}

static int begin_record(struct run_custody *custody)
{
    const struct job_run_options *options = custody->options;
    struct sheet sheet;

    int r = store_writer_begin_job(custody->writer, &custody->job);
    if (r < 0 || !int_is_known(options->sheet_num))
        return r;
    run_record_sheet(options->run_id, options->sheet_num, custody->job.started_at, &sheet);
    return store_writer_sheet(custody->writer, &sheet);
}

static void note_name(struct run_custody *custody, const char *job_id)
{
    if (job_id && job_id[0])
        snprintf(custody->job_id, sizeof(custody->job_id), "%s", job_id);
}

static void stop_storing(struct run_custody *custody)
{
    struct store_report report;

    if (!custody->writer)
        return;
    store_writer_stop(TAKE_PTR(custody->writer), &report);
    custody->has_begun = false;
    note_name(custody, report.job_id);
}

static int open_writer(struct run_custody *custody)
{
    const struct job_run_options *options = custody->options;
    struct store_writer_options writer = {
        .store = *options->store, .on_notice = options->on_notice, .context = options->context};

    if (!custody->has_job)
        return -ENOMEM;
    int r = run_record_session(options, &custody->arena, &writer.store);
    return r < 0 ? r : store_writer_start(&writer, &custody->writer);
}

static void note_failed_start(const struct run_custody *custody, int error)
{
    char text[128];

    snprintf(text, sizeof(text), "not stored: cannot start a thread: %s", strerror(-error));
    tell(custody, text);
}

static void start_storing(struct run_custody *custody)
{
    int r = 0;

    if (!custody->options->store || custody->has_begun)
        return;
    if (!custody->writer)
        r = open_writer(custody);
    if (r == 0 && (r = begin_record(custody)) < 0)
        stop_storing(custody);
    if (r < 0)
        note_failed_start(custody, r);
    else
        custody->has_begun = true;
}

static void start_storing_events(struct run_custody *custody)
{
    int r = custody->writer ? 0 : open_writer(custody);

    if (r < 0)
        note_failed_start(custody, r);
}

static void hold_recent(struct run_custody *custody, struct tick_box *box)
{
    struct tick_box **place = &custody->recent[custody->recent_count++ % RECENT_MAX];

    tick_box_free(*place);
    *place = box;
}

static void drop_recent(struct run_custody *custody)
{
    for (size_t i = 0; i < RECENT_MAX; i++) {
        tick_box_free(custody->recent[i]);
        custody->recent[i] = NULL;
    }
    custody->recent_count = 0;
}

/* The daemon is gone: its last moments are stored here. The store leaves out what is there. */
static void store_recent(struct run_custody *custody)
{
    size_t kept = MIN(custody->recent_count, (size_t)RECENT_MAX);

    for (size_t i = custody->recent_count - kept; i < custody->recent_count; i++) {
        struct tick_box *box = TAKE_PTR(custody->recent[i % RECENT_MAX]);
        if (custody->writer)
            store_writer_tick(custody->writer, box);
        else
            tick_box_free(box);
    }
    custody->recent_count = 0;
}

static void pass_on(struct run_custody *custody, struct tick_box *box)
{
    if (!custody->writer) {
        hold_recent(custody, box); /* the daemon has taken its own */
        return;
    }
    if (custody->state == KEEPER_KEEPS)
        tick_box_keep_lives(box, custody->job.run_id);
    store_writer_tick(custody->writer, box);
}

static void release_waiting(struct run_custody *custody)
{
    for (size_t i = 0; i < custody->waiting_count; i++)
        pass_on(custody, custody->waiting[i]);
    custody->waiting_count = 0;
}

/* ---- the daemon ---- */

static void on_input(void *context, int fd);

static void unwatch(struct run_custody *custody)
{
    if (custody->watch)
        fd_watch_close(TAKE_PTR(custody->watch));
}

static void tell_name(struct run_custody *custody)
{
    const char *job_id = custody->keeper->get_job_id(custody->keeper->context);
    char text[3 * JOB_ID_NUMBERED_MAX_BYTES];

    if (!job_id || strcmp(job_id, custody->job_id) == 0)
        return;
    bool is_other = strcmp(job_id, custody->options->job_id) != 0;
    note_name(custody, job_id);
    if (!is_other)
        return;
    snprintf(text, sizeof(text), "a run of '%s' is still going on: this one is called '%s'",
             custody->options->job_id, job_id);
    tell(custody, text);
}

/* From one state to another; what waits goes where it belongs. */
static void enter(struct run_custody *custody, enum keeper_state state)
{
    custody->state = state;
    if (state == KEEPER_ASKED)
        return;
    custody->was_kept = true;
    if (state == KEEPER_KEEPS) {
        tell_name(custody);
        custody->has_begun = false; /* should it come back */
        if (!custody->keeper->has_events(custody->keeper->context))
            start_storing_events(custody);
        else
            stop_storing(custody);
    } else {
        unwatch(custody);
        custody->keeper->leave(custody->keeper->context);
        start_storing(custody);
        store_recent(custody);
    }
    release_waiting(custody);
}

/* It may have got another one here. */
static void learn_name(struct run_custody *custody)
{
    struct store_report report;

    if (!custody->writer)
        return;
    store_writer_ask(custody->writer, &report);
    note_name(custody, report.job_id);
    if (custody->job_id[0])
        custody->job.job_id = custody->job_id;
}

static void ask(struct run_custody *custody)
{
    const struct run_keeper *keeper = custody->keeper;

    custody->asked_ns = clock_mono_ns();
    learn_name(custody);
    enum keeper_state state =
        keeper->ask(keeper->context, &custody->job, custody->pid, custody->options->sheet_num,
                    custody->was_kept, custody->writer != NULL);
    if (state != KEEPER_ABSENT && fd_watch_start(custody->loop, keeper->get_fd(keeper->context),
                                                 false, on_input, custody, &custody->watch) < 0)
        state = KEEPER_ABSENT;
    enter(custody, state);
}

static void check(struct run_custody *custody)
{
    enum keeper_state state = custody->keeper->check(custody->keeper->context);

    if (state == KEEPER_ASKED && clock_mono_ns() - custody->asked_ns > ANSWER_NS)
        state = KEEPER_ABSENT;
    if (state != custody->state)
        enter(custody, state);
}

static void on_input(void *context, int fd _unused_)
{
    check(context);
}

/* Time has passed: a daemon may have come, gone, or kept silent for too long. */
static void look_again(struct run_custody *custody)
{
    if (!custody->keeper)
        return;
    if (custody->state != KEEPER_ABSENT)
        check(custody);
    else if (clock_mono_ns() - custody->asked_ns > ASK_AGAIN_NS)
        ask(custody);
}

/* ---- from begin to end ---- */

struct run_custody *run_custody_begin(uv_loop_t *loop, const struct job_run_options *options,
                                      const struct moment *started, pid_t pid)
{
    struct run_custody *custody = calloc(1, sizeof(*custody));
    if (!custody)
        return NULL;

    custody->options = options;
    custody->loop = loop;
    custody->started = *started;
    custody->pid = pid;
    custody->has_job =
        run_record_begin(options, ns_to_sec(started->real_ns), &custody->arena, &custody->job) == 0;
    if (loop && options->store && options->keeper && custody->has_job)
        custody->keeper = options->keeper;
    if (custody->keeper)
        ask(custody);
    else
        start_storing(custody);
    return custody;
}

bool run_custody_is_ours(const struct run_custody *custody)
{
    return custody->state == KEEPER_ABSENT;
}

bool run_custody_keeps_events(const struct run_custody *custody)
{
    return custody->writer != NULL;
}

bool run_custody_is_kept(const struct run_custody *custody)
{
    return custody->state == KEEPER_KEEPS;
}

void run_custody_tick(struct run_custody *custody, struct tick_box *box)
{
    look_again(custody);
    if (custody->waiting_count == WAITING_MAX) /* it has had more than enough time to answer */
        enter(custody, KEEPER_ABSENT);
    if (custody->state == KEEPER_ASKED && !custody->writer)
        custody->waiting[custody->waiting_count++] = box;
    else
        pass_on(custody, box);
}

void run_custody_signalled(struct run_custody *custody, pid_t pid, const struct process_event *sent)
{
    if (custody->keeper && custody->state != KEEPER_ABSENT)
        custody->keeper->signalled(custody->keeper->context, pid, sent);
}

void run_custody_hold(struct run_custody *custody)
{
    if (custody->writer)
        store_writer_hold(custody->writer);
}

void run_custody_release(struct run_custody *custody)
{
    if (custody->writer)
        store_writer_release(custody->writer);
}

static void end_record(struct run_custody *custody, const struct run_summary *summary,
                       const struct job *job)
{
    struct sheet sheet;

    if (int_is_known(summary->sheet_num)) {
        run_record_sheet_end(summary, job->ended_at, &sheet);
        store_writer_sheet(custody->writer, &sheet);
    }
    store_writer_finish_job(custody->writer, job);
}

/* Without memory it is as the summary says. */
static void copy_cause(const struct run_keeper *keeper, struct arena *arena,
                       struct run_custody_end *ret)
{
    struct job told, copy;

    record_init(&job_record, &told);
    told.cause = keeper->get_cause(keeper->context, &told.chain);
    if (!told.cause || record_copy(&job_record, &told, arena, &copy) < 0)
        return;
    ret->cause = copy.cause;
    ret->chain = copy.chain;
}

/* Whether a daemon has it, with its outcome. */
static bool finish_elsewhere(struct run_custody *custody, const struct job *job,
                             struct arena *arena, struct run_custody_end *ret)
{
    const struct run_keeper *keeper = custody->keeper;

    if (!keeper || custody->state != KEEPER_KEEPS)
        return false;
    if (custody->writer) /* once a run has ended, its counts stay */
        store_writer_wait(custody->writer, EVENTS_WAIT_NS);
    int r = keeper->finish(keeper->context, job);
    if (r < 0)
        return false;
    tell_name(custody);
    copy_cause(keeper, arena, ret);
    return true;
}

void run_custody_finish(struct run_custody *custody, struct tick_box *last,
                        const struct run_summary *summary, double ended_at, struct arena *arena,
                        struct run_custody_end *ret)
{
    struct job job;

    *ret = (struct run_custody_end){.cause = NULL};

    if (summary)
        run_record_end(summary, ended_at, &job);
    unwatch(custody);
    if (custody->state == KEEPER_ASKED)
        enter(custody, custody->keeper->await_answer(custody->keeper->context));
    if (custody->state == KEEPER_KEEPS && custody->writer && last)
        pass_on(custody, TAKE_PTR(last));
    if (!summary || !finish_elsewhere(custody, &job, arena, ret)) {
        start_storing(custody);
        store_recent(custody);
        if (custody->writer && last)
            store_writer_tick(custody->writer, TAKE_PTR(last));
        if (custody->writer && summary)
            end_record(custody, summary, &job);
    }
    stop_storing(custody);
    if (custody->keeper)
        custody->keeper->leave(custody->keeper->context);
    drop_recent(custody);
    tick_box_free(last);
    strcpy(ret->job_id, custody->job_id);
    arena_done(&custody->arena);
    free(custody);
}
