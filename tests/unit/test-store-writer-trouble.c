/* The writer thread with a store that fails: a full or hanging disk, a lock of another writer,
 * damage. */
#include "store-writer-world.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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
    ASSERT_NOTICES("cannot store; sampling continues",
                   "writing again; 3 snapshots (3.00 s) were not stored");
}

static void test_freed_space_is_used(void **state _unused_)
{
    struct store_writer *writer = start();

    SET(making_room_helps, true);
    make_fail(CALL_TICK, -ENOSPC, UINT_MAX);
    send_ticks(writer, 1, 2);
    assert_int_equal(stop(writer).stored, 2);
    assert_int_equal(count_calls(CALL_MAKE_ROOM), 1);
    ASSERT_NO_NOTICE();
}

/* On a disk that is nearly full, cleaning up runs at intervals, not with every tick. */
static void test_space_is_freed_at_intervals(void **state _unused_)
{
    static const struct {
        uint64_t retry_ns;
        size_t rooms;
    } cases[] = {{3600 * NS_PER_SEC, 1}, {1, 2}};

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        fake_store_reset(NULL);
        struct store_writer *writer =
            start_with((struct store_pace){.retry_ns = cases[i].retry_ns});
        SET(making_room_helps, true);
        make_fail(CALL_TICK, -ENOSPC, 1);
        send_ticks(writer, 1, 1);
        AWAIT(last_id() == 1);
        make_fail(CALL_TICK, -ENOSPC, 1);
        send_ticks(writer, 2, 2);
        AWAIT(fake.failures == 0);
        assert_int_equal(stop(writer).stored, 2);
        assert_int_equal(count_calls(CALL_MAKE_ROOM), cases[i].rooms);
    }
}

static void test_full_twice_is_logged_twice(void **state _unused_)
{
    struct store_writer *writer = start();

    for (unsigned round = 1; round <= 2; round++) {
        make_fail(CALL_TICK, -ENOSPC, 5);
        send_ticks(writer, round, round);
        AWAIT(fake.notices.count == round * 2);
    }
    assert_int_equal(stop(writer).dropped, 0);
    assert_int_equal(count_calls(CALL_MAKE_ROOM), 2);
    ASSERT_NOTICES("cannot store; sampling continues", "writing again; no snapshot was lost",
                   "cannot store; sampling continues", "writing again; no snapshot was lost");
}

static void test_full_to_the_end(void **state _unused_)
{
    struct store_writer *writer = start_with((struct store_pace){.retry_ns = 3600 * NS_PER_SEC});

    begin_job(writer, "job");
    make_fail(CALL_TICK, -ENOSPC, UINT_MAX);
    send_ticks(writer, 1, 2);
    AWAIT(fake.notices.count == 1);
    struct store_report report = stop(writer);

    assert_int_equal(report.stored, 0);
    assert_int_equal(report.dropped, 2);
    assert_string_equal(report.error, "cannot store");
    assert_int_equal(count_calls(CALL_CLOSE), 1);
    ASSERT_NOTICES("cannot store; sampling continues", "not stored to the end: cannot store");
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

static void test_busy_is_retried(void **state _unused_)
{
    struct store_writer *writer = start();

    make_fail(CALL_TICK, -EBUSY, 4);
    send_ticks(writer, 1, 3);
    AWAIT(last_id() == 3);
    assert_int_equal(stop(writer).stored, 3);
    assert_int_equal(count_calls(CALL_MAKE_ROOM), 0);
    ASSERT_NOTICES("cannot store; sampling continues", "writing again; no snapshot was lost");
}

static void test_busy_when_opened(void **state _unused_)
{
    static const int errors[] = {-EBUSY, -ENOSPC};

    for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
        fake_store_reset(NULL);
        make_fail(CALL_OPEN, errors[i], 3);
        struct store_writer *writer = start();
        begin_job(writer, "job");
        AWAIT(count_calls(CALL_BEGIN) == 1);
        assert_string_equal(stop(writer).error, "");
        ASSERT_NOTICES("cannot open '/nowhere/monitor.db'; sampling continues",
                       "writing again; no snapshot was lost");
    }
}

/* The writer waits for another writer no longer than the caller allows, and abandons nothing. */
static void test_busy_to_the_end(void **state _unused_)
{
    struct store_writer *writer =
        start_with((struct store_pace){.stop_ns = 1200 * MSEC, .retry_busy_ns = MSEC});

    SET(is_held_up, true);
    send_ticks(writer, 1, 2);
    AWAIT(fake.is_waiting);
    struct store_report report = stop(writer);
    assert_int_equal(report.dropped, 2);
    assert_string_equal(report.error, "cannot store");
    assert_int_equal(count_calls(CALL_CLOSE), 1);
    ASSERT_NOTICES("not stored: cannot store");
}

/* ---- deleted ---- */

/* A daemon creates a new database and writes the pending data to it. */
static void test_deleted_database_is_created_again(void **state _unused_)
{
    struct store_writer *writer = start_staying();

    send_ticks(writer, 1, 1);
    AWAIT(last_id() == 1);
    make_fail(CALL_TICK, -ESTALE, 1);
    send_ticks(writer, 2, 3);
    AWAIT(last_id() == 3);
    struct store_report report = stop(writer);
    assert_int_equal(report.stored, 3);
    assert_int_equal(report.dropped, 0);
    assert_int_equal(count_calls(CALL_OPEN), 2);
    assert_int_equal(count_calls(CALL_CLOSE), 2);
    find_tick(2);
    ASSERT_NOTICES("cannot store; creating a new one");
}

static void test_new_database_that_cannot_be_written(void **state _unused_)
{
    struct store_writer *writer = start_staying();

    send_ticks(writer, 1, 1);
    AWAIT(last_id() == 1);
    make_fail(CALL_TICK, -ESTALE, 2);
    send_ticks(writer, 2, 2);
    AWAIT(fake.notices.count >= 2);
    struct store_report report = stop(writer);
    assert_int_equal(report.stored + report.dropped, 2);
}

/* ---- given up ---- */

static void test_foreign_file_is_given_up(void **state _unused_)
{
    make_fail(CALL_OPEN, -EBADMSG, UINT_MAX);
    struct store_writer *writer = start();
    begin_job(writer, "job");
    send_ticks(writer, 1, 2);
    AWAIT(fake.notices.count == 1);
    send_ticks(writer, 3, 200); /* the queue does not grow */
    finish_job(writer);
    struct store_report report = stop(writer);

    assert_int_equal(fake.attempts, 1);
    assert_string_equal(report.job_id, "");
    assert_int_equal(report.dropped, 200);
    assert_string_equal(report.error, "cannot open '/nowhere/monitor.db'");
    ASSERT_NOTICES("not stored: cannot open '/nowhere/monitor.db'");
}

static void test_damage_while_writing_is_given_up(void **state _unused_)
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

static void test_tick_that_cannot_be_written_is_skipped(void **state _unused_)
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
    ASSERT_NOTICES("cannot store; sampling continues",
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

static void test_patterns_that_cannot_be_written_are_skipped(void **state _unused_)
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

/* However long the disk hangs, and however many requests there are. */
static void test_only_the_latest_patterns_are_queued(void **state _unused_)
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

static void test_job_that_cannot_be_written_stops_the_writer(void **state _unused_)
{
    struct store_writer *writer = start();

    make_fail(CALL_BEGIN, -EIO, UINT_MAX);
    begin_job(writer, "job");
    send_ticks(writer, 1, 1);
    AWAIT(fake.notices.count == 2);
    assert_int_equal(stop(writer).dropped, 1);
    ASSERT_NOTICES("cannot store; sampling continues", "not stored: cannot store");
}

/* An abandoned thread closes the store, frees its writer and ends. The leak check must not run
 * before that. Other threads cannot join it, so the test waits until it is gone from /proc. */
static void await_end_of_thread(void)
{
    char path[64];

    AWAIT(count_calls(CALL_CLOSE) == 1);
    snprintf(path, sizeof(path), "/proc/self/task/%d", (int)fake.writer_tid);
    while (access(path, F_OK) == 0) /* meson's timeout ends the test if it never ends */
        nanosleep(&(struct timespec){.tv_nsec = MSEC}, NULL);
}

/* ---- slow ---- */

/* A thread that uses CPU time makes progress: it may take longer than a disk that hangs. */
static void test_stop_waits_for_a_slow_thread(void **state _unused_)
{
    const uint64_t stop_ns = 1200 * MSEC;
    struct store_writer *writer = start_with((struct store_pace){.stop_ns = stop_ns});

    SET(computes_until_ns, clock_mono_ns() + stop_ns * 3 / 2);
    send_ticks(writer, 1, 1);
    AWAIT(fake.is_waiting);
    struct store_report report = stop(writer);
    assert_int_equal(report.stored, 1);
    assert_string_equal(report.error, "");
    ASSERT_NO_NOTICE();
}

/* … but not for ever. */
static void test_endless_thread_is_abandoned(void **state _unused_)
{
    struct store_writer *writer = start_with((struct store_pace){.stop_ns = 60 * MSEC});

    SET(computes_until_ns, clock_mono_ns() + PATIENCE_NS);
    send_ticks(writer, 1, 1);
    AWAIT(fake.is_waiting);
    assert_int_equal(stop(writer).dropped, 1);
    ASSERT_NOTICES("not stored to the end: the disk of /nowhere/monitor.db does not answer");
    SET(computes_until_ns, 0);
    await_end_of_thread();
}

/* ---- hanging ---- */

static void test_thread_on_a_hanging_disk_is_abandoned(void **state _unused_)
{
    struct store_writer *writer = start_with((struct store_pace){.stop_ns = 50 * MSEC});

    SET(is_blocked, true);
    send_ticks(writer, 1, 3);
    AWAIT(fake.is_waiting);
    struct store_report report = stop(writer);

    assert_int_equal(report.stored, 0);
    assert_int_equal(report.dropped, 3);
    assert_non_null(strstr(report.error, "/nowhere/monitor.db"));
    ASSERT_NOTICES("not stored to the end: the disk of /nowhere/monitor.db does not answer");

    /* The disk returns: the thread completes its call, logs nothing, and cleans up. */
    SET(is_blocked, false);
    await_end_of_thread();
    assert_int_equal(last_id(), 1);
    assert_int_equal(fake.notices.count, 1);
    /* Each tick is stored or in the gap, none is both. */
    assert_int_equal(find_tick(0)->not_stored.lost, 2);
    assert_int_equal(find_tick(0)->events.lost, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_full_disk_resumes_by_itself, fake_store_reset),
        cmocka_unit_test_setup(test_freed_space_is_used, fake_store_reset),
        cmocka_unit_test_setup(test_space_is_freed_at_intervals, fake_store_reset),
        cmocka_unit_test_setup(test_full_twice_is_logged_twice, fake_store_reset),
        cmocka_unit_test_setup(test_full_to_the_end, fake_store_reset),
        cmocka_unit_test_setup(test_jobs_wait_for_room, fake_store_reset),
        cmocka_unit_test_setup(test_busy_is_retried, fake_store_reset),
        cmocka_unit_test_setup(test_busy_when_opened, fake_store_reset),
        cmocka_unit_test_setup(test_busy_to_the_end, fake_store_reset),
        cmocka_unit_test_setup(test_deleted_database_is_created_again, fake_store_reset),
        cmocka_unit_test_setup(test_new_database_that_cannot_be_written, fake_store_reset),
        cmocka_unit_test_setup(test_foreign_file_is_given_up, fake_store_reset),
        cmocka_unit_test_setup(test_damage_while_writing_is_given_up, fake_store_reset),
        cmocka_unit_test_setup(test_tick_that_cannot_be_written_is_skipped, fake_store_reset),
        cmocka_unit_test_setup(test_patterns_that_cannot_be_written_are_skipped, fake_store_reset),
        cmocka_unit_test_setup(test_only_the_latest_patterns_are_queued, fake_store_reset),
        cmocka_unit_test_setup(test_job_that_cannot_be_written_stops_the_writer, fake_store_reset),
        cmocka_unit_test_setup(test_stop_waits_for_a_slow_thread, fake_store_reset),
        cmocka_unit_test_setup(test_endless_thread_is_abandoned, fake_store_reset),
        cmocka_unit_test_setup(test_thread_on_a_hanging_disk_is_abandoned, fake_store_reset),
    };
    return cmocka_run_group_tests(tests, NULL, fake_store_reset);
}
