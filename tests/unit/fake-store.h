/* A store that misbehaves on purpose: slow, full, busy, damaged, hanging. It defines the store's
 * functions and records the calls.
 *
 * Tests wait for a condition. They wait a few milliseconds only to check that something does not
 * happen. */
#pragma once

#include "unit.h"

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/vec.h"
#include "store/store.h"

#define MSEC NS_PER_MSEC

/* Longer than any operation that does not fail. */
#define PATIENCE_NS (120 * NS_PER_SEC)

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

/* Calls to the store that were carried out, in order. */
struct entry {
    enum call call;
    int64_t id; /* of the snapshot; 0: there was none */
    size_t gaps;
    size_t anomalies;
    struct anomaly first, last; /* of them; their texts are in `text` */
    struct gap not_stored;
    struct gap events;
    char text[64];
    char beside_run[UUID_TEXT_SIZE];
};

struct store {
    bool (*should_stop)(void *context);
    void *context;
};

extern struct store fake_store;

/* The behaviour and the recorded calls; the lock guards what changes while a writer runs. */
extern struct fake {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct VEC(struct entry) entries;
    unsigned attempts; /* to write or open, successful or not */

    /* how it misbehaves */
    enum call failing;
    int error;
    unsigned failures; /* how many times */
    bool making_room_helps;
    bool is_blocked; /* writing a tick does not return */
    bool is_held_up; /* … until should_stop() returns true: another writer has the database */
    uint64_t
        computes_until_ns; /* writing a tick uses CPU time until then, on the monotonic clock */
    bool was_retained_lately;
    bool retains_long; /* until should_stop() returns true */
    const char *rename_to;
    int log_error;

    /* what it saw */
    bool is_waiting; /* in a tick that does not return */
    bool signals_are_blocked;
    pid_t writer_tid; /* of the thread that opened it */
    unsigned retained;
    char host[64];

    struct VEC(char *) notices;
} fake;

/* Resets behaviour and records. For cmocka: before each test, and after the last. */
int fake_store_reset(void **state);

/* Fails this many times; UINT_MAX: until changed. */
void make_fail(enum call call, int error, unsigned times);

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

/* What was written; for an AWAIT, or while no thread writes. */
size_t count_calls(enum call call);
/* Of the latest tick with a snapshot; or 0. */
int64_t last_id(void);
/* Fails the test if there is none. 0: one without a snapshot. */
const struct entry *find_tick(int64_t id);

#define ASSERT_CALLS(call, expected)                                                               \
    do {                                                                                           \
        pthread_mutex_lock(&fake.lock);                                                            \
        size_t count_ = count_calls(call);                                                         \
        pthread_mutex_unlock(&fake.lock);                                                          \
        assert_int_equal(count_, expected);                                                        \
    } while (0)

/* The logged messages begin with these texts, in this order, and there are no others. */
void assert_notices(size_t count, const char *const *starts);

#define ASSERT_NOTICES(...)                                                                        \
    assert_notices(ARRAY_SIZE(((const char *[]){__VA_ARGS__})), (const char *[]){__VA_ARGS__})
#define ASSERT_NO_NOTICE() assert_notices(0, NULL)
