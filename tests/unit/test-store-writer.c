/* The writer thread without errors: the order of writes, its status, waiting, and when it cleans
 * up. */
#include "store-writer-world.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* ---- writing ---- */

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
}

static void test_run_gets_a_numbered_name(void **state _unused_)
{
    SET(rename_to, "job-2");
    struct store_writer *writer = start();
    begin_job(writer, "job");
    finish_job(writer);
    assert_string_equal(stop(writer).job_id, "job-2");
    ASSERT_NOTICES("a run of 'job' is still active: this one is called 'job-2'");
}

static void test_log_errors_are_logged_once(void **state _unused_)
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

static void test_writes_are_held(void **state _unused_)
{
    struct store_writer *writer = start();

    AWAIT(count_calls(CALL_OPEN) == 1);
    store_writer_hold(writer);
    send_ticks(writer, 1, 1);
    nanosleep(&(struct timespec){.tv_nsec = 20 * MSEC}, NULL);
    ASSERT_CALLS(CALL_TICK, 0);
    store_writer_release(writer);
    AWAIT(count_calls(CALL_TICK) == 1);

    /* a writer that stops releases them */
    store_writer_hold(writer);
    send_ticks(writer, 2, 2);
    assert_int_equal(stop(writer).stored, 2);
}

static void test_hold_waits_for_the_current_write(void **state _unused_)
{
    struct store_writer *writer = start();

    SET(is_held_up, true);
    send_ticks(writer, 1, 1);
    AWAIT(fake.is_waiting);
    store_writer_hold(writer); /* … but not for ever, else this does not return */
    store_writer_release(writer);
    SET(is_held_up, false);
    assert_int_equal(stop(writer).stored, 1);
}

/* ---- other settings ---- */

static void configure(struct store_writer *writer, double events_days)
{
    const struct retention_config retention = {.events_days = events_days};

    assert_int_equal(store_writer_configure(writer, &retention), 0);
}

static void test_settings_apply_in_order(void **state _unused_)
{
    static const enum call expected[] = {CALL_OPEN, CALL_TICK,      CALL_CONFIGURE, CALL_CONFIGURE,
                                         CALL_TICK, CALL_CONFIGURE, CALL_TICK,      CALL_CLOSE};
    struct store_writer *writer = start();

    send_ticks(writer, 1, 1);
    configure(writer, 3);
    configure(writer, 4);
    send_ticks(writer, 2, 2);
    AWAIT(last_id() == 2);
    configure(writer, 0);
    send_ticks(writer, 3, 3);
    assert_int_equal(stop(writer).stored, 3);
    assert_int_equal(fake.entries.count, ARRAY_SIZE(expected));
    for (size_t i = 0; i < ARRAY_SIZE(expected); i++)
        assert_int_equal(fake.entries.items[i].call, expected[i]);
    assert_int_equal(fake.entries.items[2].id, 3);
    assert_int_equal(fake.entries.items[3].id, 4);
    assert_int_equal(fake.entries.items[5].id, 0);
}

static void test_settings_of_a_store_that_was_given_up(void **state _unused_)
{
    make_fail(CALL_OPEN, -EBADMSG, UINT_MAX);
    struct store_writer *writer = start();

    configure(writer, 3);
    AWAIT(fake.notices.count == 1);
    configure(writer, 4);
    stop(writer);
    assert_int_equal(count_calls(CALL_CONFIGURE), 0);
}

/* ---- status ---- */

static void *ask_often(void *argument)
{
    for (int i = 0; i < 1000; i++)
        assert_true(ask(argument).stored <= 50);
    return NULL;
}

static void test_status_from_another_thread(void **state _unused_)
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

static void test_status_during_an_error(void **state _unused_)
{
    struct store_writer *writer = start();

    begin_job(writer, "job");
    send_ticks(writer, 1, 1);
    assert_true(store_writer_wait(writer, PATIENCE_NS)); /* it needs no room in the queue */
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
    /* the error is over; the loss remains */
    assert_string_equal(ask(writer).error, "");
    assert_int_equal(ask(writer).dropped, 3);
    assert_int_equal(ask(writer).stored, 1 + STORE_QUEUE_MAX);
    assert_string_equal(stop(writer).error, "the disk was full");
}

static void test_status_without_errors(void **state _unused_)
{
    struct store_writer *writer = start();

    send_ticks(writer, 1, 2);
    AWAIT(last_id() == 2);
    struct store_report report = ask(writer);
    assert_string_equal(report.error, "");
    assert_int_equal(report.dropped, 0);
    stop(writer);
}

/* ---- load ---- */

static void report_sheets_until(struct store_writer *writer, enum store_load load)
{
    struct sheet sheet;

    record_init(&sheet_record, &sheet);
    sheet.run_id = "run";
    sheet.name = "a step whose name is some thirty bytes long";
    for (size_t i = 0; store_writer_load(writer) != load; i++) {
        assert_true(i < STORE_PENDING_MAX_BYTES /
                            sizeof(struct sheet)); /* else the limit has no effect */
        sheet.sheet_num = (int64_t)i;
        assert_int_equal(store_writer_sheet(writer, &sheet), 0);
    }
}

static void test_load_is_reported(void **state _unused_)
{
    struct store_writer *writer = start();

    SET(is_blocked, true);
    send_ticks(writer, 1, 1);
    AWAIT(fake.is_waiting);
    send_ticks(writer, 2, STORE_QUEUE_MAX); /* ticks have their own limit */
    assert_int_equal(store_writer_load(writer), STORE_LOAD_LIGHT);
    report_sheets_until(writer, STORE_LOAD_HEAVY);
    report_sheets_until(writer, STORE_LOAD_FULL);
    finish_job(writer); /* the writer itself rejects nothing */
    SET(is_blocked, false);
    assert_true(store_writer_wait(writer, PATIENCE_NS));
    assert_int_equal(store_writer_load(writer), STORE_LOAD_LIGHT);
    ASSERT_CALLS(CALL_FINISH, 1);
    stop(writer);
}

/* ---- waiting ---- */

static void test_wait_until_all_is_written(void **state _unused_)
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

static void test_wait_is_limited(void **state _unused_)
{
    struct store_writer *writer = start();

    SET(is_blocked, true);
    send_ticks(writer, 1, 1);
    AWAIT(fake.is_waiting);
    assert_false(store_writer_wait(writer, 20 * MSEC));
    SET(is_blocked, false);
    stop(writer);

    /* a writer that was given up is not waited for */
    fake_store_reset(NULL);
    make_fail(CALL_OPEN, -EBADMSG, UINT_MAX);
    writer = start();
    store_writer_wait(writer, 3600 * NS_PER_SEC);
    stop(writer);
}

/* ---- retention ---- */

static void test_retention_runs_at_start_and_at_intervals(void **state _unused_)
{
    SET(was_retained_lately, false);
    struct store_writer *writer = start_with((struct store_pace){.retain_every_ns = 5 * MSEC});
    AWAIT(fake.retained >= 3);
    stop(writer);

    fake_store_reset(NULL);
    SET(was_retained_lately, false);
    writer = start();
    AWAIT(fake.retained == 1);
    send_ticks(writer, 1, 1);
    AWAIT(last_id() == 1);
    stop(writer);
    assert_int_equal(fake.retained, 1);
}

static void test_retention_of_another_writer_counts(void **state _unused_)
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
    assert_int_equal(stop(writer).stored, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_order, fake_store_reset),
        cmocka_unit_test_setup(test_thread, fake_store_reset),
        cmocka_unit_test_setup(test_run_gets_a_numbered_name, fake_store_reset),
        cmocka_unit_test_setup(test_log_errors_are_logged_once, fake_store_reset),
        cmocka_unit_test_setup(test_writes_are_held, fake_store_reset),
        cmocka_unit_test_setup(test_hold_waits_for_the_current_write, fake_store_reset),
        cmocka_unit_test_setup(test_settings_apply_in_order, fake_store_reset),
        cmocka_unit_test_setup(test_settings_of_a_store_that_was_given_up, fake_store_reset),
        cmocka_unit_test_setup(test_status_from_another_thread, fake_store_reset),
        cmocka_unit_test_setup(test_status_during_an_error, fake_store_reset),
        cmocka_unit_test_setup(test_status_without_errors, fake_store_reset),
        cmocka_unit_test_setup(test_load_is_reported, fake_store_reset),
        cmocka_unit_test_setup(test_wait_until_all_is_written, fake_store_reset),
        cmocka_unit_test_setup(test_wait_is_limited, fake_store_reset),
        cmocka_unit_test_setup(test_retention_runs_at_start_and_at_intervals, fake_store_reset),
        cmocka_unit_test_setup(test_retention_of_another_writer_counts, fake_store_reset),
        cmocka_unit_test_setup(test_ticks_go_before_retention, fake_store_reset),
        cmocka_unit_test_setup(test_stopping_goes_before_retention, fake_store_reset),
    };
    return cmocka_run_group_tests(tests, NULL, fake_store_reset);
}
