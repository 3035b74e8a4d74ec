/* The writer thread against a store that misbehaves on purpose: slow, full, busy, damaged, hanging.
 *
 * The store's functions are defined here. Whatever a test waits for is told by a condition; only
 * what must not happen is given a few milliseconds to happen in. */
#include "engine/store-writer.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/vec.h"
#include "unit.h"

#define MSEC NS_PER_MSEC

/* Nothing takes as long, unless it has failed. */
#define PATIENCE_NS (20 * NS_PER_SEC)

enum call {
    CALL_OPEN = 1,
    CALL_TICK,
    CALL_BEGIN,
    CALL_FINISH,
    CALL_SHEET,
    CALL_PATTERNS,
    CALL_CONFIGURE,
    CALL_MAKE_ROOM,
    CALL_RETAIN,
    CALL_CLOSE,
};

/* What was asked of the store, in order, and done. */
struct entry {
    enum call call;
    int64_t id; /* of the snapshot; 0: there was none */
    size_t gaps;
    size_t anomalies;
    struct anomaly first, last; /* of them; their texts are in `text` */
    struct gap not_stored;
    struct gap events;
    char text[64];
};

struct store {
    const struct text_list *redact;
    bool (*should_stop)(void *context);
    void *context;
};

static struct store fake_store;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct VEC(struct entry) entries;
    unsigned attempts; /* at writing or opening, done or not */

    /* how it misbehaves */
    enum call failing;
    int error;
    unsigned failures; /* so many times */
    bool making_room_helps;
    bool is_blocked; /* writing a tick does not come back */
    bool is_held_up; /* … unless should_stop() says so: another writer has the database */
    bool was_retained_lately;
    bool retains_long; /* until should_stop() says so */
    const char *rename_to;
    int log_error;

    /* what it saw */
    bool is_waiting; /* in a tick that does not come back */
    bool signals_are_blocked;
    unsigned retained;
    char redact[64];
    char host[64];

    struct VEC(char *) notices;
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static int setup(void **state _unused_)
{
    for (size_t i = 0; i < fake.notices.count; i++)
        free(fake.notices.items[i]);
    VEC_DONE(&fake.notices);
    VEC_DONE(&fake.entries);
    fake.attempts = fake.failures = fake.retained = 0;
    fake.failing = 0;
    fake.error = fake.log_error = 0;
    fake.making_room_helps = fake.is_blocked = fake.is_held_up = fake.is_waiting = false;
    fake.retains_long = fake.signals_are_blocked = false;
    fake.was_retained_lately = true;
    fake.rename_to = NULL;
    return 0;
}

/* ---- the store ---- */

static int fail_or_note(enum call call, struct entry entry)
{
    int r = 0;

    pthread_mutex_lock(&fake.lock);
    fake.attempts++;
    if (fake.failing == call && fake.failures) {
        fake.failures -= fake.failures != UINT_MAX;
        r = fake.error;
    } else {
        entry.call = call;
        VEC_PUSH(&fake.entries, entry);
    }
    pthread_cond_broadcast(&fake.changed);
    pthread_mutex_unlock(&fake.lock);
    return r;
}

int store_open(const struct store_options *options, struct store **ret, struct store_error *error)
{
    sigset_t mask;

    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    fake.signals_are_blocked = sigismember(&mask, SIGTERM) == 1 && sigismember(&mask, SIGINT) == 1;
    snprintf(fake.host, sizeof(fake.host), "%s", options->host);
    snprintf(fake.redact, sizeof(fake.redact), "%s", options->redact->items[1]);
    fake_store = (struct store){.redact = options->redact,
                                .should_stop = options->should_stop,
                                .context = options->context};
    snprintf(error->text, sizeof(error->text), "cannot open '%s'", options->path);
    int r = fail_or_note(CALL_OPEN, (struct entry){0});
    if (r == 0)
        *ret = &fake_store;
    return r;
}

int store_close(struct store *store _unused_)
{
    return fail_or_note(CALL_CLOSE, (struct entry){0});
}

const char *store_path(const struct store *store)
{
    (void)store;
    return "monitor.db";
}

const char *store_moved_from(const struct store *store)
{
    (void)store;
    return NULL;
}

const char *store_error(const struct store *store _unused_)
{
    return "cannot store";
}

/* A disk that hangs, or another writer that is waited for until should_stop() says otherwise. */
static int wait_if_blocked(void)
{
    int r = 0;

    pthread_mutex_lock(&fake.lock);
    fake.is_waiting = fake.is_blocked || fake.is_held_up;
    pthread_cond_broadcast(&fake.changed);
    while (fake.is_blocked)
        pthread_cond_wait(&fake.changed, &fake.lock);
    while (fake.is_held_up && r == 0) {
        pthread_mutex_unlock(&fake.lock);
        nanosleep(&(struct timespec){.tv_nsec = MSEC}, NULL);
        if (fake_store.should_stop(fake_store.context))
            r = -EBUSY;
        pthread_mutex_lock(&fake.lock);
    }
    fake.is_waiting = false;
    pthread_mutex_unlock(&fake.lock);
    return r;
}

int store_write_tick(struct store *store _unused_, struct tick *tick)
{
    const struct anomaly_list *anomalies = &tick->anomalies;
    struct entry entry = {.id = tick->snapshot ? tick->snapshot->id : 0,
                          .gaps = tick->gaps.count,
                          .anomalies = anomalies->count};

    if (anomalies->count) {
        entry.first = anomalies->items[0];
        entry.last = anomalies->items[anomalies->count - 1];
        snprintf(entry.text, sizeof(entry.text), "%s", entry.first.description);
    }

    for (size_t i = 0; i < tick->gaps.count; i++)
        if (tick->gaps.items[i].kind == GAP_NOT_STORED) {
            entry.not_stored = tick->gaps.items[i];
            snprintf(entry.text, sizeof(entry.text), "%s", tick->gaps.items[i].reason);
        } else {
            entry.events = tick->gaps.items[i];
        }
    int r = wait_if_blocked();
    return r < 0 ? r : fail_or_note(CALL_TICK, entry);
}

int store_jsonl_error(const struct store *store _unused_)
{
    pthread_mutex_lock(&fake.lock);
    int error = fake.log_error;
    pthread_mutex_unlock(&fake.lock);
    return error;
}

int store_begin_job(struct store *store _unused_, const struct job *job,
                    char ret_job_id[static JOB_ID_NUMBERED_MAX_BYTES])
{
    struct entry entry = {0};

    snprintf(entry.text, sizeof(entry.text), "%s %s", job->run_id, job->command);
    strcpy(ret_job_id, fake.rename_to ? fake.rename_to : job->job_id);
    return fail_or_note(CALL_BEGIN, entry);
}

int store_finish_job(struct store *store _unused_, const struct job *job)
{
    struct entry entry = {.id = job->exit_code};

    snprintf(entry.text, sizeof(entry.text), "%s", job->run_id);
    assert_null(job->job_id);
    return fail_or_note(CALL_FINISH, entry);
}

int store_write_sheet(struct store *store _unused_, const struct sheet *sheet)
{
    return fail_or_note(CALL_SHEET, (struct entry){.id = sheet->sheet_num});
}

int store_renew_patterns(struct store *store _unused_, const char *pattern_type,
                         const struct pattern_list *patterns)
{
    struct entry entry = {.id = (int64_t)patterns->count};

    snprintf(entry.text, sizeof(entry.text), "%s %s", pattern_type,
             patterns->items[0].pattern_name);
    return fail_or_note(CALL_PATTERNS, entry);
}

/* Tells the words, which must still be there when the next tick is written. */
void store_configure(struct store *store, const struct text_list *redact,
                     const struct retention_config *retention)
{
    struct entry entry = {.id = (int64_t)retention->events_days};

    store->redact = redact;
    snprintf(entry.text, sizeof(entry.text), "%s", redact->count ? redact->items[0] : "-");
    fail_or_note(CALL_CONFIGURE, entry);
}

int store_retain(struct store *store, double now _unused_)
{
    int r = 0;

    pthread_mutex_lock(&fake.lock);
    fake.retained++;
    bool is_long = fake.retains_long;
    pthread_cond_broadcast(&fake.changed);
    pthread_mutex_unlock(&fake.lock);
    while (is_long && r == 0) {
        nanosleep(&(struct timespec){.tv_nsec = MSEC}, NULL);
        r = store->should_stop(store->context);
    }
    fail_or_note(CALL_RETAIN, (struct entry){.id = r});
    return r;
}

bool store_retained_lately(struct store *store _unused_, double now _unused_)
{
    return fake.was_retained_lately;
}

int store_make_room(struct store *store _unused_, double now _unused_)
{
    pthread_mutex_lock(&fake.lock);
    if (fake.making_room_helps)
        fake.failures = 0;
    pthread_mutex_unlock(&fake.lock);
    return fail_or_note(CALL_MAKE_ROOM, (struct entry){0});
}

/* ---- what the tests are written in ---- */

static void on_notice(void *context _unused_, const char *text)
{
    pthread_mutex_lock(&fake.lock);
    VEC_PUSH(&fake.notices, strdup(text));
    pthread_cond_broadcast(&fake.changed);
    pthread_mutex_unlock(&fake.lock);
}

static struct store_writer *start_with(struct store_pace pace)
{
    /* All of it is gone when this returns. */
    char path[] = "/nowhere/monitor.db", host[] = "here", word[] = "token", other[] = "key";
    const char *words[] = {word, other};
    struct text_list redact = {.items = words, .count = 2};
    struct store_writer *writer = NULL;
    const struct store_writer_options options = {
        .store = {.path = path,
                  .redact = &redact,
                  .host = host,
                  .boot_id = "boot",
                  .collector = "procfs",
                  .interval_seconds = 1},
        .pace = pace,
        .on_notice = on_notice,
    };

    assert_int_equal(store_writer_start(&options, &writer), 0);
    memset(path, 'x', sizeof(path) - 1);
    memset(host, 'x', sizeof(host) - 1);
    memset(other, 'x', sizeof(other) - 1);
    return writer;
}

static struct store_writer *start(void)
{
    return start_with((struct store_pace){.retry_ns = MSEC, .retry_busy_ns = MSEC});
}

static struct tick_box *make_tick(int64_t id, size_t events)
{
    static const struct run run = {.run_id = "run", .job_id = "job"};
    const struct owner owner = {.run = &run, .sheet_num = INT_UNKNOWN};
    struct tick_box *box = tick_box_new();

    assert_non_null(box);
    for (size_t i = 0; i < events; i++)
        assert_non_null(tick_box_add_spawn(box, owner, (pid_t)i + 1, 1, 1000.0 + (double)id));
    box->tick.snapshot = snapshot_new();
    assert_non_null(box->tick.snapshot);
    box->tick.snapshot->id = id;
    box->tick.snapshot->timestamp = 1000.0 + (double)id;
    return box;
}

static void send_ticks(struct store_writer *writer, int64_t from, int64_t to)
{
    for (int64_t id = from; id <= to; id++)
        store_writer_tick(writer, make_tick(id, 2));
}

/* What is told of an episode that began at `began`, in the words of that tick. */
static struct tick_box *make_notice(int64_t id, double began, bool is_opening, bool is_cleared)
{
    struct tick_box *box = make_tick(id, 0);
    struct anomaly *anomaly = arena_alloc(&box->arena, sizeof(*anomaly));
    char words[32];

    assert_non_null(anomaly);
    record_init(&anomaly_record, anomaly);
    snprintf(words, sizeof(words), "as of %d", (int)id);
    anomaly->timestamp = began;
    anomaly->anomaly_type = "memory_spike";
    anomaly->pid = 5;
    anomaly->uid = 1000;
    anomaly->description = arena_strdup(&box->arena, words);
    anomaly->is_opening = is_opening;
    if (is_cleared)
        anomaly->cleared_at = began + 1;
    box->tick.anomalies = (struct anomaly_list){anomaly, 1};
    return box;
}

static void begin_job(struct store_writer *writer, const char *job_id)
{
    char command[] = "make all";
    struct job job;

    record_init(&job_record, &job);
    job.run_id = "run";
    job.job_id = job_id;
    job.command = command;
    assert_int_equal(store_writer_begin_job(writer, &job), 0);
    memset(command, 'x', sizeof(command) - 1);
}

static void finish_job(struct store_writer *writer)
{
    struct job job;

    record_init(&job_record, &job);
    job.run_id = "run";
    job.job_id = "job";
    job.exit_code = 3;
    assert_int_equal(store_writer_finish_job(writer, &job), 0);
}

/* Waits until `condition` holds, which the fake's lock guards. */
#define AWAIT(condition)                                                                           \
    do {                                                                                           \
        struct timespec until_;                                                                    \
        clock_gettime(CLOCK_REALTIME, &until_);                                                    \
        until_.tv_sec += (time_t)(PATIENCE_NS / NS_PER_SEC);                                       \
        pthread_mutex_lock(&fake.lock);                                                            \
        int error_ = 0;                                                                            \
        while (!(condition) && error_ == 0)                                                        \
            error_ = pthread_cond_timedwait(&fake.changed, &fake.lock, &until_);                   \
        pthread_mutex_unlock(&fake.lock);                                                          \
        assert_int_equal(error_, 0);                                                               \
    } while (0)

#define SET(member, value)                                                                         \
    do {                                                                                           \
        pthread_mutex_lock(&fake.lock);                                                            \
        fake.member = (value);                                                                     \
        pthread_cond_broadcast(&fake.changed);                                                     \
        pthread_mutex_unlock(&fake.lock);                                                          \
    } while (0)

static void make_fail(enum call call, int error, unsigned times)
{
    pthread_mutex_lock(&fake.lock);
    fake.failing = call;
    fake.error = error;
    fake.failures = times;
    pthread_mutex_unlock(&fake.lock);
}

static size_t count_calls(enum call call)
{
    size_t count = 0;

    for (size_t i = 0; i < fake.entries.count; i++)
        count += fake.entries.items[i].call == call;
    return count;
}

#define ASSERT_CALLS(call, expected)                                                               \
    do {                                                                                           \
        pthread_mutex_lock(&fake.lock);                                                            \
        size_t count_ = count_calls(call);                                                         \
        pthread_mutex_unlock(&fake.lock);                                                          \
        assert_int_equal(count_, expected);                                                        \
    } while (0)

static int64_t last_id(void)
{
    for (size_t i = fake.entries.count; i-- > 0;)
        if (fake.entries.items[i].call == CALL_TICK && fake.entries.items[i].id)
            return fake.entries.items[i].id;
    return 0;
}

static const struct entry *find_tick(int64_t id)
{
    for (size_t i = 0; i < fake.entries.count; i++)
        if (fake.entries.items[i].call == CALL_TICK && fake.entries.items[i].id == id)
            return &fake.entries.items[i];
    fail_msg("no tick %d was written", (int)id);
    return NULL;
}

static void assert_notices(size_t count, const char *const *starts)
{
    for (size_t i = 0; i < fake.notices.count; i++)
        if (i >= count || strncmp(fake.notices.items[i], starts[i], strlen(starts[i])) != 0)
            fail_msg("notice %zu is '%s'", i, fake.notices.items[i]);
    assert_int_equal(fake.notices.count, count);
}

#define ASSERT_NOTICES(...)                                                                        \
    assert_notices(ARRAY_SIZE(((const char *[]){__VA_ARGS__})), (const char *[]){__VA_ARGS__})
#define ASSERT_NO_NOTICE() assert_notices(0, NULL)

static struct store_report stop(struct store_writer *writer)
{
    struct store_report report;

    store_writer_stop(writer, &report);
    return report;
}

/* ---- all is well ---- */

static void test_order(void **state _unused_)
{
    static const enum call expected[] = {CALL_OPEN, CALL_BEGIN, CALL_TICK,   CALL_SHEET,
                                         CALL_TICK, CALL_TICK,  CALL_FINISH, CALL_CLOSE};
    struct store_writer *writer = start();
    struct sheet sheet;

    record_init(&sheet_record, &sheet);
    sheet.run_id = "run";
    sheet.sheet_num = 7;
    begin_job(writer, "job");
    send_ticks(writer, 1, 1);
    assert_int_equal(store_writer_sheet(writer, &sheet), 0);
    send_ticks(writer, 2, 3);
    finish_job(writer);
    struct store_report report = stop(writer);

    assert_int_equal(fake.entries.count, ARRAY_SIZE(expected));
    for (size_t i = 0; i < ARRAY_SIZE(expected); i++)
        assert_int_equal(fake.entries.items[i].call, expected[i]);
    assert_string_equal(fake.entries.items[1].text, "run make all");
    assert_int_equal(fake.entries.items[3].id, 7);
    assert_int_equal(fake.entries.items[6].id, 3);
    assert_string_equal(report.job_id, "job");
    assert_int_equal(report.stored, 3);
    assert_int_equal(report.dropped, 0);
    assert_int_equal(report.events_lost, 0);
    assert_string_equal(report.error, "");
    ASSERT_NO_NOTICE();
}

static void test_thread(void **state _unused_)
{
    stop(start());
    assert_true(fake.signals_are_blocked);
    assert_string_equal(fake.host, "here");
    assert_string_equal(fake.redact, "key");
}

static void test_renamed(void **state _unused_)
{
    SET(rename_to, "job-2");
    struct store_writer *writer = start();
    begin_job(writer, "job");
    finish_job(writer);
    assert_string_equal(stop(writer).job_id, "job-2");
    ASSERT_NOTICES("a run of 'job' is still going on: this one is called 'job-2'");
}

static void test_log_trouble_is_said_once(void **state _unused_)
{
    struct store_writer *writer = start();

    SET(log_error, -ENOSPC);
    send_ticks(writer, 1, 3);
    AWAIT(count_calls(CALL_TICK) == 3 && fake.notices.count == 1);
    SET(log_error, 0);
    send_ticks(writer, 4, 5);
    assert_int_equal(stop(writer).stored, 5);
    assert_int_equal(fake.notices.count, 2);
}

static void test_held(void **state _unused_)
{
    struct store_writer *writer = start();

    AWAIT(count_calls(CALL_OPEN) == 1);
    store_writer_hold(writer);
    send_ticks(writer, 1, 1);
    nanosleep(&(struct timespec){.tv_nsec = 20 * MSEC}, NULL);
    ASSERT_CALLS(CALL_TICK, 0);
    store_writer_release(writer);
    AWAIT(count_calls(CALL_TICK) == 1);

    /* whoever stops lets go */
    store_writer_hold(writer);
    send_ticks(writer, 2, 2);
    assert_int_equal(stop(writer).stored, 2);
}

static void test_hold_waits_for_what_is_written(void **state _unused_)
{
    struct store_writer *writer = start();

    SET(is_held_up, true);
    send_ticks(writer, 1, 1);
    AWAIT(fake.is_waiting);
    uint64_t before_ns = clock_mono_ns();
    store_writer_hold(writer);
    /* … but not for ever */
    assert_true(clock_mono_ns() - before_ns < 2 * NS_PER_SEC);
    store_writer_release(writer);
    SET(is_held_up, false);
    assert_int_equal(stop(writer).stored, 1);
}

/* ---- other settings ---- */

static void configure(struct store_writer *writer, const char *word, double events_days)
{
    char text[16];
    const char *words[] = {text};
    const struct text_list redact = {.items = words, .count = 1};
    const struct retention_config retention = {.events_days = events_days};

    snprintf(text, sizeof(text), "%s", word);
    assert_int_equal(store_writer_configure(writer, &redact, &retention), 0);
    memset(text, 'x', sizeof(text) - 1);
}

static void test_settings_come_in_their_turn(void **state _unused_)
{
    static const enum call expected[] = {CALL_OPEN, CALL_TICK,      CALL_CONFIGURE, CALL_CONFIGURE,
                                         CALL_TICK, CALL_CONFIGURE, CALL_TICK,      CALL_CLOSE};
    struct store_writer *writer = start();

    send_ticks(writer, 1, 1);
    configure(writer, "first", 3);
    configure(writer, "second", 4);
    send_ticks(writer, 2, 2);
    AWAIT(last_id() == 2);
    assert_string_equal(fake_store.redact->items[0], "second"); /* still there */
    assert_int_equal(store_writer_configure(writer, NULL, &(struct retention_config){0}), 0);
    send_ticks(writer, 3, 3);
    assert_int_equal(stop(writer).stored, 3);
    assert_int_equal(fake.entries.count, ARRAY_SIZE(expected));
    for (size_t i = 0; i < ARRAY_SIZE(expected); i++)
        assert_int_equal(fake.entries.items[i].call, expected[i]);
    assert_string_equal(fake.entries.items[2].text, "first");
    assert_int_equal(fake.entries.items[2].id, 3);
    assert_string_equal(fake.entries.items[3].text, "second");
    assert_int_equal(fake.entries.items[3].id, 4);
    assert_string_equal(fake.entries.items[5].text, "-");
}

static void test_settings_of_a_store_that_was_given_up(void **state _unused_)
{
    make_fail(CALL_OPEN, -EBADMSG, UINT_MAX);
    struct store_writer *writer = start();

    configure(writer, "first", 3);
    AWAIT(fake.notices.count == 1);
    configure(writer, "second", 4);
    stop(writer);
    assert_int_equal(count_calls(CALL_CONFIGURE), 0);
}

/* ---- asked in between ---- */

static struct store_report ask(struct store_writer *writer)
{
    struct store_report report;

    store_writer_ask(writer, &report);
    return report;
}

static void *ask_often(void *argument)
{
    for (int i = 0; i < 1000; i++)
        assert_true(ask(argument).stored <= 50);
    return NULL;
}

static void test_asked_by_another_thread(void **state _unused_)
{
    struct store_writer *writer = start();
    pthread_t thread;

    begin_job(writer, "job");
    assert_int_equal(pthread_create(&thread, NULL, ask_often, writer), 0);
    send_ticks(writer, 1, 50);
    pthread_join(thread, NULL);
    AWAIT(last_id() == 50);
    assert_int_equal(stop(writer).stored, 50);
}

static void test_asked_while_there_is_trouble(void **state _unused_)
{
    struct store_writer *writer = start();

    begin_job(writer, "job");
    send_ticks(writer, 1, 1);
    assert_true(store_writer_wait(writer, PATIENCE_NS)); /* it takes no room in the queue */
    make_fail(CALL_TICK, -ENOSPC, UINT_MAX);
    send_ticks(writer, 2, STORE_QUEUE_MAX + 4);
    AWAIT(fake.notices.count == 1);
    struct store_report report = ask(writer);
    assert_string_equal(report.job_id, "job");
    assert_int_equal(report.dropped, 3);
    assert_int_equal(report.events_lost, 6);
    assert_string_equal(report.error, "cannot store");
    make_fail(0, 0, 0);
    AWAIT(fake.notices.count == 2);
    /* it is over; what is lost stays lost */
    assert_string_equal(ask(writer).error, "");
    assert_int_equal(ask(writer).dropped, 3);
    assert_int_equal(ask(writer).stored, 1 + STORE_QUEUE_MAX);
    assert_string_equal(stop(writer).error, "the disk was full");
}

static void test_asked_while_all_is_well(void **state _unused_)
{
    struct store_writer *writer = start();

    send_ticks(writer, 1, 2);
    AWAIT(last_id() == 2);
    struct store_report report = ask(writer);
    assert_string_equal(report.error, "");
    assert_int_equal(report.dropped, 0);
    stop(writer);
}

/* ---- how much waits ---- */

static void tell_sheets_until(struct store_writer *writer, enum store_load load)
{
    struct sheet sheet;

    record_init(&sheet_record, &sheet);
    sheet.run_id = "run";
    sheet.name = "a step whose name is some thirty bytes long";
    for (size_t i = 0; store_writer_load(writer) != load; i++) {
        assert_true(i < STORE_TOLD_MAX_BYTES / sizeof(struct sheet)); /* else nobody counts */
        sheet.sheet_num = (int64_t)i;
        assert_int_equal(store_writer_sheet(writer, &sheet), 0);
    }
}

static void test_load_is_told(void **state _unused_)
{
    struct store_writer *writer = start();

    SET(is_blocked, true);
    send_ticks(writer, 1, 1);
    AWAIT(fake.is_waiting);
    send_ticks(writer, 2, STORE_QUEUE_MAX); /* which have a limit of their own */
    assert_int_equal(store_writer_load(writer), STORE_LOAD_LIGHT);
    tell_sheets_until(writer, STORE_LOAD_HEAVY);
    tell_sheets_until(writer, STORE_LOAD_FULL);
    finish_job(writer); /* it is not for the writer to refuse anything */
    SET(is_blocked, false);
    assert_true(store_writer_wait(writer, PATIENCE_NS));
    assert_int_equal(store_writer_load(writer), STORE_LOAD_LIGHT);
    ASSERT_CALLS(CALL_FINISH, 1);
    stop(writer);
}

/* ---- waited for ---- */

static void test_waited_for_until_all_is_written(void **state _unused_)
{
    struct store_writer *writer = start();

    begin_job(writer, "job");
    send_ticks(writer, 1, 20);
    store_writer_wait(writer, PATIENCE_NS);
    ASSERT_CALLS(CALL_OPEN, 1);
    ASSERT_CALLS(CALL_TICK, 20);
    store_writer_wait(writer, PATIENCE_NS); /* there is nothing to wait for */
    stop(writer);
}

static void test_not_waited_for_for_ever(void **state _unused_)
{
    struct store_writer *writer = start();

    SET(is_blocked, true);
    send_ticks(writer, 1, 1);
    AWAIT(fake.is_waiting);
    uint64_t before_ns = clock_mono_ns();
    store_writer_wait(writer, 20 * MSEC);
    uint64_t waited_ns = clock_mono_ns() - before_ns;
    assert_true(waited_ns >= 20 * MSEC && waited_ns < 5 * NS_PER_SEC);
    SET(is_blocked, false);
    stop(writer);

    /* one that was given up is not waited for at all */
    setup(NULL);
    make_fail(CALL_OPEN, -EBADMSG, UINT_MAX);
    writer = start();
    before_ns = clock_mono_ns();
    store_writer_wait(writer, PATIENCE_NS);
    assert_true(clock_mono_ns() - before_ns < PATIENCE_NS / 2);
    stop(writer);
}

/* ---- what was noticed ---- */

/* It goes with the next tick that is written, as it stands then, before what that one brings. */
static void test_what_was_noticed_is_not_lost(void **state _unused_)
{
    struct store_writer *writer = start();

    SET(is_blocked, true);
    send_ticks(writer, 1, STORE_QUEUE_MAX);
    store_writer_tick(writer, make_notice(101, 1101, true, false));
    store_writer_tick(writer, make_notice(102, 1101, false, false));
    store_writer_tick(writer, make_notice(103, 1103, true, false));
    store_writer_tick(writer, make_notice(104, 1101, false, true));
    SET(is_blocked, false);
    AWAIT(last_id() == STORE_QUEUE_MAX);
    store_writer_tick(writer, make_notice(105, 1103, false, true));
    send_ticks(writer, 106, 106);
    struct store_report report = stop(writer);

    assert_int_equal(report.dropped, 4);
    assert_int_equal(report.events_lost, 0);
    const struct entry *tick = find_tick(105);
    assert_int_equal(tick->anomalies, 3);
    assert_true(tick->first.timestamp == 1101);
    assert_true(tick->first.is_opening);
    assert_true(tick->first.cleared_at == 1102);
    assert_int_equal(tick->first.uid, 1000);
    assert_true(tick->last.timestamp == 1103);
    assert_false(tick->last.is_opening);
    assert_int_equal(tick->not_stored.lost, 4);
    assert_int_equal(find_tick(106)->anomalies, 0);
}

static void test_what_was_noticed_at_the_end(void **state _unused_)
{
    struct store_writer *writer = start();

    SET(is_blocked, true);
    send_ticks(writer, 1, STORE_QUEUE_MAX);
    store_writer_tick(writer, make_notice(101, 1101, true, false));
    SET(is_blocked, false);
    stop(writer);
    const struct entry *last = find_tick(0);
    assert_int_equal(last->anomalies, 1);
    assert_true(last->first.is_opening);
}

/* A tick that is tried in vain gives back what it took along. */
static void test_what_was_noticed_is_tried_again(void **state _unused_)
{
    struct store_writer *writer = start();

    make_fail(CALL_TICK, -EIO, 3);
    store_writer_tick(writer, make_notice(1, 1001, true, false));
    AWAIT(fake.attempts == 4);
    make_fail(0, 0, 0);
    send_ticks(writer, 2, 2);
    AWAIT(last_id() == 2);
    stop(writer);
    bool is_with_tick = find_tick(2)->anomalies == 1;
    const struct entry *entry = is_with_tick ? find_tick(2) : find_tick(0);
    assert_int_equal(entry->anomalies, 1);
    assert_true(entry->first.is_opening);
}

/* A disk that stays full does not fill memory: what is too much is counted. */
static void test_too_much_was_noticed(void **state _unused_)
{
    struct store_writer *writer = start();

    SET(is_blocked, true);
    send_ticks(writer, 1, STORE_QUEUE_MAX);
    for (int64_t i = 0; i < 300; i++)
        for (int news = 0; news < 3; news++)
            store_writer_tick(writer,
                              make_notice(1000 + i, 2000 + (double)i, news == 0, news == 2));
    SET(is_blocked, false);
    AWAIT(last_id() == STORE_QUEUE_MAX);
    send_ticks(writer, 2000, 2000);
    struct store_report report = stop(writer);
    /* three times of 44 that there was no room for; and two events of each tick that was sent */
    assert_int_equal(report.events_lost, 3 * (300 - 256));
    const struct entry *tick = find_tick(2000);
    assert_int_equal(tick->anomalies, 256);
    assert_true(tick->first.is_opening && tick->last.is_opening);
    assert_true(tick->last.timestamp == 2255);
    assert_true(tick->last.cleared_at == 2256);
    assert_int_equal(tick->events.lost, 3 * (300 - 256));
}

static void test_what_was_noticed_without_a_store(void **state _unused_)
{
    make_fail(CALL_OPEN, -EBADMSG, UINT_MAX);
    struct store_writer *writer = start();

    AWAIT(fake.notices.count == 1);
    store_writer_tick(writer, make_notice(1, 1001, true, false));
    store_writer_tick(writer, make_notice(2, 1002, true, false));
    assert_int_equal(ask(writer).events_lost, 2);
    assert_int_equal(stop(writer).events_lost, 2);
}

/* ---- slow ---- */

static void test_slow_store_drops_and_counts(void **state _unused_)
{
    struct store_writer *writer = start();

    SET(is_blocked, true);
    send_ticks(writer, 1, STORE_QUEUE_MAX + 10);
    begin_job(writer, "job"); /* never dropped */
    SET(is_blocked, false);
    AWAIT(count_calls(CALL_BEGIN) == 1);
    send_ticks(writer, 100, 101);
    struct store_report report = stop(writer);

    assert_int_equal(report.stored, STORE_QUEUE_MAX + 2);
    assert_int_equal(report.dropped, 10);
    assert_int_equal(report.events_lost, 20);
    assert_string_equal(report.error, "the disk was too slow");
    assert_int_equal(find_tick(STORE_QUEUE_MAX)->gaps, 0);
    const struct entry *next = find_tick(100);
    assert_int_equal(next->gaps, 2);
    assert_int_equal(next->not_stored.lost, 10);
    assert_true(next->not_stored.seconds == 10);
    assert_true(next->not_stored.timestamp == 1000 + STORE_QUEUE_MAX + 10);
    assert_string_equal(next->text, "the disk was too slow");
    assert_int_equal(next->events.kind, GAP_EVENTS);
    assert_int_equal(next->events.lost, 20);
    assert_int_equal(find_tick(101)->gaps, 0);
    ASSERT_NOTICES("the disk is too slow to store every snapshot; sampling goes on",
                   "writing again; 10 snapshots (10.00 s) were not stored");
}

static void test_loss_at_the_end_is_stored(void **state _unused_)
{
    struct store_writer *writer = start();

    SET(is_blocked, true);
    send_ticks(writer, 1, STORE_QUEUE_MAX + 1);
    SET(is_blocked, false);
    assert_int_equal(stop(writer).dropped, 1);
    const struct entry *last = find_tick(0);
    assert_int_equal(last->not_stored.lost, 1);
    assert_true(last->not_stored.seconds == 1);
}

/* A box that got full before its time has events and no snapshot. */
static void test_events_alone_are_lost_as_events(void **state _unused_)
{
    struct store_writer *writer = start();
    struct tick_box *box = make_tick(1000, 5);

    snapshot_free(box->tick.snapshot);
    box->tick.snapshot = NULL;
    SET(is_blocked, true);
    send_ticks(writer, 1, STORE_QUEUE_MAX);
    store_writer_tick(writer, box);
    SET(is_blocked, false);
    struct store_report report = stop(writer);
    assert_int_equal(report.dropped, 0);
    assert_int_equal(report.events_lost, 5);
    assert_int_equal(find_tick(0)->gaps, 1);
    assert_int_equal(find_tick(0)->events.lost, 5);
}

/* ---- full ---- */

static void test_full_disk_resumes_by_itself(void **state _unused_)
{
    struct store_writer *writer = start();

    make_fail(CALL_TICK, -ENOSPC, UINT_MAX);
    send_ticks(writer, 1, STORE_QUEUE_MAX + 3);
    AWAIT(fake.attempts > 20);
    make_fail(0, 0, 0);
    AWAIT(last_id() == STORE_QUEUE_MAX);
    send_ticks(writer, 100, 100);
    struct store_report report = stop(writer);

    assert_int_equal(report.stored, STORE_QUEUE_MAX + 1);
    assert_int_equal(report.dropped, 3);
    assert_int_equal(count_calls(CALL_MAKE_ROOM), 1);
    assert_int_equal(find_tick(100)->not_stored.lost, 3);
    assert_string_equal(find_tick(100)->text, "the disk was full");
    ASSERT_NOTICES("cannot store; sampling goes on",
                   "writing again; 3 snapshots (3.00 s) were not stored");
}

static void test_room_that_was_made_is_used(void **state _unused_)
{
    struct store_writer *writer = start();

    SET(making_room_helps, true);
    make_fail(CALL_TICK, -ENOSPC, UINT_MAX);
    send_ticks(writer, 1, 2);
    assert_int_equal(stop(writer).stored, 2);
    assert_int_equal(count_calls(CALL_MAKE_ROOM), 1);
    ASSERT_NO_NOTICE();
}

/* A disk that is nearly full is not cleaned up with every tick, but now and again. */
static void test_room_is_made_again_after_a_while(void **state _unused_)
{
    struct store_writer *writer = start_with((struct store_pace){.retry_ns = 200 * MSEC});
    uint64_t first_ns = clock_mono_ns();

    SET(making_room_helps, true);
    make_fail(CALL_TICK, -ENOSPC, UINT_MAX);
    send_ticks(writer, 1, 1);
    AWAIT(last_id() == 1);
    make_fail(CALL_TICK, -ENOSPC, 1);
    send_ticks(writer, 2, 2);
    AWAIT(last_id() == 2);
    assert_true(clock_mono_ns() - first_ns > 200 * MSEC || count_calls(CALL_MAKE_ROOM) == 1);
    nanosleep(&(struct timespec){.tv_nsec = 200 * MSEC}, NULL);
    make_fail(CALL_TICK, -ENOSPC, UINT_MAX);
    send_ticks(writer, 3, 3);
    assert_int_equal(stop(writer).stored, 3);
    assert_true(count_calls(CALL_MAKE_ROOM) >= 2);
}

static void test_full_twice_is_said_twice(void **state _unused_)
{
    struct store_writer *writer = start();

    for (unsigned round = 1; round <= 2; round++) {
        make_fail(CALL_TICK, -ENOSPC, 5);
        send_ticks(writer, round, round);
        AWAIT(fake.notices.count == round * 2);
    }
    assert_int_equal(stop(writer).dropped, 0);
    assert_int_equal(count_calls(CALL_MAKE_ROOM), 2);
    ASSERT_NOTICES("cannot store; sampling goes on", "writing again; no snapshot was lost",
                   "cannot store; sampling goes on", "writing again; no snapshot was lost");
}

static void test_full_to_the_end(void **state _unused_)
{
    struct store_writer *writer = start_with((struct store_pace){.retry_ns = 3600 * NS_PER_SEC});

    begin_job(writer, "job");
    make_fail(CALL_TICK, -ENOSPC, UINT_MAX);
    send_ticks(writer, 1, 2);
    AWAIT(fake.notices.count == 1);
    uint64_t before_ns = clock_mono_ns();
    struct store_report report = stop(writer);

    assert_true(clock_mono_ns() - before_ns < NS_PER_SEC);
    assert_int_equal(report.stored, 0);
    assert_int_equal(report.dropped, 2);
    assert_string_equal(report.error, "cannot store");
    assert_int_equal(count_calls(CALL_CLOSE), 1);
    ASSERT_NOTICES("cannot store; sampling goes on", "not stored to the end: cannot store");
}

static void test_jobs_wait_for_room(void **state _unused_)
{
    struct store_writer *writer = start();

    make_fail(CALL_BEGIN, -ENOSPC, 20);
    begin_job(writer, "job");
    send_ticks(writer, 1, 1);
    finish_job(writer);
    AWAIT(count_calls(CALL_FINISH) == 1);
    assert_int_equal(stop(writer).stored, 1);
    assert_int_equal(count_calls(CALL_BEGIN), 1);
}

/* ---- busy ---- */

static void test_busy_is_tried_again(void **state _unused_)
{
    struct store_writer *writer = start();

    make_fail(CALL_TICK, -EBUSY, 4);
    send_ticks(writer, 1, 3);
    AWAIT(last_id() == 3);
    assert_int_equal(stop(writer).stored, 3);
    assert_int_equal(count_calls(CALL_MAKE_ROOM), 0);
    ASSERT_NOTICES("cannot store; sampling goes on", "writing again; no snapshot was lost");
}

static void test_busy_when_opened(void **state _unused_)
{
    static const int errors[] = {-EBUSY, -ENOSPC};

    for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
        setup(NULL);
        make_fail(CALL_OPEN, errors[i], 3);
        struct store_writer *writer = start();
        begin_job(writer, "job");
        AWAIT(count_calls(CALL_BEGIN) == 1);
        assert_string_equal(stop(writer).error, "");
        ASSERT_NOTICES("cannot open '/nowhere/monitor.db'; sampling goes on",
                       "writing again; no snapshot was lost");
    }
}

/* Another writer is not waited for longer than the caller's patience, and nothing is abandoned. */
static void test_busy_to_the_end(void **state _unused_)
{
    struct store_writer *writer =
        start_with((struct store_pace){.stop_ns = 200 * MSEC, .retry_busy_ns = MSEC});

    SET(is_held_up, true);
    send_ticks(writer, 1, 2);
    AWAIT(fake.is_waiting);
    struct store_report report = stop(writer);
    assert_int_equal(report.dropped, 2);
    assert_string_equal(report.error, "cannot store");
    assert_int_equal(count_calls(CALL_CLOSE), 1);
    ASSERT_NOTICES("not stored: cannot store");
}

/* ---- given up ---- */

static void test_foreign_file_is_given_up(void **state _unused_)
{
    make_fail(CALL_OPEN, -EBADMSG, UINT_MAX);
    struct store_writer *writer = start();
    begin_job(writer, "job");
    send_ticks(writer, 1, 2);
    AWAIT(fake.notices.count == 1);
    send_ticks(writer, 3, 200); /* and nothing piles up */
    finish_job(writer);
    struct store_report report = stop(writer);

    assert_int_equal(fake.attempts, 1);
    assert_string_equal(report.job_id, "");
    assert_int_equal(report.dropped, 200);
    assert_string_equal(report.error, "cannot open '/nowhere/monitor.db'");
    ASSERT_NOTICES("not stored: cannot open '/nowhere/monitor.db'");
}

static void test_damage_on_the_way_is_given_up(void **state _unused_)
{
    struct store_writer *writer = start();

    send_ticks(writer, 1, 1);
    AWAIT(last_id() == 1);
    make_fail(CALL_TICK, -EBADMSG, UINT_MAX);
    send_ticks(writer, 2, 3);
    AWAIT(fake.notices.count == 1);
    struct store_report report = stop(writer);
    assert_int_equal(report.stored, 1);
    assert_int_equal(report.dropped, 2);
    assert_int_equal(count_calls(CALL_CLOSE), 1);
    ASSERT_NOTICES("no longer stored: cannot store");
}

static void test_tick_that_cannot_be_written_is_left_out(void **state _unused_)
{
    struct store_writer *writer = start();

    make_fail(CALL_TICK, -EIO, 3);
    send_ticks(writer, 1, 1);
    AWAIT(fake.attempts == 4); /* with the opening */
    send_ticks(writer, 2, 2);
    AWAIT(last_id() == 2);
    struct store_report report = stop(writer);
    assert_int_equal(report.stored, 1);
    assert_int_equal(report.dropped, 1);
    /* with the tick after it, or at the end, if that had been queued already */
    bool is_with_tick = find_tick(2)->gaps == 2;
    assert_int_equal((is_with_tick ? find_tick(2) : find_tick(0))->not_stored.lost, 1);
    ASSERT_NOTICES("cannot store; sampling goes on",
                   "writing again; 1 snapshot (1.00 s) was not stored");
}

static void renew_patterns(struct store_writer *writer, const char *name)
{
    char copied[16];
    struct pattern pattern;

    snprintf(copied, sizeof(copied), "%s", name);
    record_init(&pattern_record, &pattern);
    pattern.pattern_name = copied;
    assert_int_equal(
        store_writer_renew_patterns(writer, "TYPE", &(struct pattern_list){&pattern, 1}), 0);
    memset(copied, 'x', sizeof(copied) - 1);
}

static void test_patterns_that_cannot_be_written_are_left_out(void **state _unused_)
{
    struct store_report report;

    make_fail(CALL_PATTERNS, -EIO, UINT_MAX);
    struct store_writer *writer = start();
    renew_patterns(writer, "never");
    send_ticks(writer, 1, 2);
    AWAIT(last_id() == 2);
    make_fail(CALL_PATTERNS, 0, 0);
    renew_patterns(writer, "later");
    finish_job(writer);
    store_writer_stop(writer, &report);
    assert_int_equal(report.stored, 2);
    assert_int_equal(report.dropped, 0);
    assert_string_equal(report.error, "");
    ASSERT_CALLS(CALL_PATTERNS, 1);
    ASSERT_CALLS(CALL_FINISH, 1);
}

/* However long the disk hangs, and however often somebody asks. */
static void test_of_patterns_only_the_latest_wait(void **state _unused_)
{
    struct store_report report;

    SET(is_blocked, true);
    struct store_writer *writer = start();
    send_ticks(writer, 1, 1);
    AWAIT(fake.is_waiting);
    for (int i = 0; i < 100; i++)
        renew_patterns(writer, i < 99 ? "old" : "new");
    SET(is_blocked, false);
    store_writer_stop(writer, &report);
    ASSERT_CALLS(CALL_PATTERNS, 1);
    for (size_t i = 0; i < fake.entries.count; i++)
        if (fake.entries.items[i].call == CALL_PATTERNS)
            assert_string_equal(fake.entries.items[i].text, "TYPE new");
}

static void test_job_that_cannot_be_written_ends_it(void **state _unused_)
{
    struct store_writer *writer = start();

    make_fail(CALL_BEGIN, -EIO, UINT_MAX);
    begin_job(writer, "job");
    send_ticks(writer, 1, 1);
    AWAIT(fake.notices.count == 2);
    assert_int_equal(stop(writer).dropped, 1);
    ASSERT_NOTICES("cannot store; sampling goes on", "not stored: cannot store");
}

/* ---- hanging ---- */

static void test_hanging_disk_is_left_to_itself(void **state _unused_)
{
    struct store_writer *writer = start_with((struct store_pace){.stop_ns = 50 * MSEC});

    SET(is_blocked, true);
    send_ticks(writer, 1, 3);
    AWAIT(fake.is_waiting);
    uint64_t before_ns = clock_mono_ns();
    struct store_report report = stop(writer);

    assert_true(clock_mono_ns() - before_ns < 5 * NS_PER_SEC);
    assert_int_equal(report.stored, 0);
    assert_int_equal(report.dropped, 3);
    assert_non_null(strstr(report.error, "/nowhere/monitor.db"));
    ASSERT_NOTICES("not stored to the end: the disk of /nowhere/monitor.db does not answer");

    /* It comes back after all: the thread ends what it was at, says nothing, and cleans up. */
    SET(is_blocked, false);
    AWAIT(count_calls(CALL_CLOSE) == 1);
    assert_int_equal(last_id(), 1);
    assert_int_equal(fake.notices.count, 1);
    nanosleep(&(struct timespec){.tv_nsec = 50 * MSEC}, NULL); /* for the leak check to see it */
}

/* ---- retention ---- */

static void test_retains_at_start_and_then_now_and_again(void **state _unused_)
{
    SET(was_retained_lately, false);
    struct store_writer *writer = start_with((struct store_pace){.retain_every_ns = 5 * MSEC});
    AWAIT(fake.retained >= 3);
    stop(writer);

    setup(NULL);
    SET(was_retained_lately, false);
    writer = start();
    AWAIT(fake.retained == 1);
    send_ticks(writer, 1, 1);
    AWAIT(last_id() == 1);
    stop(writer);
    assert_int_equal(fake.retained, 1);
}

static void test_does_not_retain_what_others_did(void **state _unused_)
{
    struct store_writer *writer = start();

    send_ticks(writer, 1, 1);
    AWAIT(last_id() == 1);
    stop(writer);
    assert_int_equal(fake.retained, 0);
}

static void test_ticks_go_before_retention(void **state _unused_)
{
    SET(was_retained_lately, false);
    SET(retains_long, true);
    struct store_writer *writer = start();
    AWAIT(fake.retained == 1);
    send_ticks(writer, 1, STORE_QUEUE_MAX / 2);
    nanosleep(&(struct timespec){.tv_nsec = 20 * MSEC}, NULL);
    ASSERT_CALLS(CALL_TICK, 0);
    send_ticks(writer, STORE_QUEUE_MAX / 2 + 1, STORE_QUEUE_MAX / 2 + 1);
    AWAIT(last_id() == STORE_QUEUE_MAX / 2 + 1);
    assert_int_equal(stop(writer).dropped, 0);
}

static void test_stopping_goes_before_retention(void **state _unused_)
{
    SET(was_retained_lately, false);
    SET(retains_long, true);
    struct store_writer *writer = start();
    AWAIT(fake.retained == 1);
    send_ticks(writer, 1, 1);
    uint64_t before_ns = clock_mono_ns();
    assert_int_equal(stop(writer).stored, 1);
    assert_true(clock_mono_ns() - before_ns < NS_PER_SEC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_order, setup),
        cmocka_unit_test_setup(test_thread, setup),
        cmocka_unit_test_setup(test_renamed, setup),
        cmocka_unit_test_setup(test_log_trouble_is_said_once, setup),
        cmocka_unit_test_setup(test_held, setup),
        cmocka_unit_test_setup(test_hold_waits_for_what_is_written, setup),
        cmocka_unit_test_setup(test_settings_come_in_their_turn, setup),
        cmocka_unit_test_setup(test_settings_of_a_store_that_was_given_up, setup),
        cmocka_unit_test_setup(test_asked_by_another_thread, setup),
        cmocka_unit_test_setup(test_asked_while_there_is_trouble, setup),
        cmocka_unit_test_setup(test_asked_while_all_is_well, setup),
        cmocka_unit_test_setup(test_load_is_told, setup),
        cmocka_unit_test_setup(test_waited_for_until_all_is_written, setup),
        cmocka_unit_test_setup(test_not_waited_for_for_ever, setup),
        cmocka_unit_test_setup(test_what_was_noticed_is_not_lost, setup),
        cmocka_unit_test_setup(test_what_was_noticed_at_the_end, setup),
        cmocka_unit_test_setup(test_what_was_noticed_is_tried_again, setup),
        cmocka_unit_test_setup(test_too_much_was_noticed, setup),
        cmocka_unit_test_setup(test_what_was_noticed_without_a_store, setup),
        cmocka_unit_test_setup(test_slow_store_drops_and_counts, setup),
        cmocka_unit_test_setup(test_loss_at_the_end_is_stored, setup),
        cmocka_unit_test_setup(test_events_alone_are_lost_as_events, setup),
        cmocka_unit_test_setup(test_full_disk_resumes_by_itself, setup),
        cmocka_unit_test_setup(test_room_that_was_made_is_used, setup),
        cmocka_unit_test_setup(test_room_is_made_again_after_a_while, setup),
        cmocka_unit_test_setup(test_full_twice_is_said_twice, setup),
        cmocka_unit_test_setup(test_full_to_the_end, setup),
        cmocka_unit_test_setup(test_jobs_wait_for_room, setup),
        cmocka_unit_test_setup(test_busy_is_tried_again, setup),
        cmocka_unit_test_setup(test_busy_when_opened, setup),
        cmocka_unit_test_setup(test_busy_to_the_end, setup),
        cmocka_unit_test_setup(test_foreign_file_is_given_up, setup),
        cmocka_unit_test_setup(test_damage_on_the_way_is_given_up, setup),
        cmocka_unit_test_setup(test_tick_that_cannot_be_written_is_left_out, setup),
        cmocka_unit_test_setup(test_patterns_that_cannot_be_written_are_left_out, setup),
        cmocka_unit_test_setup(test_of_patterns_only_the_latest_wait, setup),
        cmocka_unit_test_setup(test_job_that_cannot_be_written_ends_it, setup),
        cmocka_unit_test_setup(test_hanging_disk_is_left_to_itself, setup),
        cmocka_unit_test_setup(test_retains_at_start_and_then_now_and_again, setup),
        cmocka_unit_test_setup(test_does_not_retain_what_others_did, setup),
        cmocka_unit_test_setup(test_ticks_go_before_retention, setup),
        cmocka_unit_test_setup(test_stopping_goes_before_retention, setup),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    setup(NULL);
    return failed;
}
