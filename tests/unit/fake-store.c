#include "fake-store.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct store fake_store;
struct fake fake = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

int fake_store_reset(void **state _unused_)
{
    for (size_t i = 0; i < fake.notices.count; i++)
        free(fake.notices.items[i]);
    VEC_DONE(&fake.notices);
    VEC_DONE(&fake.entries);
    fake.attempts = fake.failures = fake.retained = 0;
    fake.failing = 0;
    fake.error = fake.log_error = 0;
    fake.computes_until_ns = 0;
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
    fake.writer_tid = gettid();
    snprintf(fake.host, sizeof(fake.host), "%s", options->host);
    fake_store = (struct store){.should_stop = options->should_stop, .context = options->context};
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

/* A disk that hangs, or a lock of another writer that is waited for until should_stop(). */
static int wait_if_blocked(void)
{
    int r = 0;

    pthread_mutex_lock(&fake.lock);
    fake.is_waiting = fake.is_blocked || fake.is_held_up || fake.computes_until_ns;
    pthread_cond_broadcast(&fake.changed);
    while (clock_mono_ns() < fake.computes_until_ns) {
        pthread_mutex_unlock(&fake.lock);
        pthread_mutex_lock(&fake.lock);
    }
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

int store_write_tick(struct store *store _unused_, const struct tick *tick)
{
    const struct anomaly_list *anomalies = &tick->anomalies;
    struct entry entry = {.id = tick->snapshot ? tick->snapshot->id : 0,
                          .gaps = tick->gaps.count,
                          .anomalies = anomalies->count};

    strcpy(entry.beside_run, tick->beside_run);
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

void store_configure(struct store *store _unused_, const struct retention_config *retention)
{
    fail_or_note(CALL_CONFIGURE, (struct entry){.id = (int64_t)retention->events_days});
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

/* ---- for the tests ---- */

void make_fail(enum call call, int error, unsigned times)
{
    pthread_mutex_lock(&fake.lock);
    fake.failing = call;
    fake.error = error;
    fake.failures = times;
    pthread_mutex_unlock(&fake.lock);
}

size_t count_calls(enum call call)
{
    size_t count = 0;

    for (size_t i = 0; i < fake.entries.count; i++)
        count += fake.entries.items[i].call == call;
    return count;
}

int64_t last_id(void)
{
    for (size_t i = fake.entries.count; i-- > 0;)
        if (fake.entries.items[i].call == CALL_TICK && fake.entries.items[i].id)
            return fake.entries.items[i].id;
    return 0;
}

const struct entry *find_tick(int64_t id)
{
    for (size_t i = 0; i < fake.entries.count; i++)
        if (fake.entries.items[i].call == CALL_TICK && fake.entries.items[i].id == id)
            return &fake.entries.items[i];
    fail_msg("no tick %d was written", (int)id);
    return NULL;
}

void assert_notices(size_t count, const char *const *starts)
{
    for (size_t i = 0; i < fake.notices.count; i++)
        if (i >= count || strncmp(fake.notices.items[i], starts[i], strlen(starts[i])) != 0)
            fail_msg("notice %zu is '%s'", i, fake.notices.items[i]);
    assert_int_equal(fake.notices.count, count);
}
