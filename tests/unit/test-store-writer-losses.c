/* The writer thread with a store that is too slow: dropped data is counted, and anomalies are kept.
 */
#include "store-writer-world.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>

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
    ASSERT_NOTICES("the disk is too slow to store every snapshot; sampling continues",
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

/* A box that was full before its tick has events and no snapshot. */
static void test_events_alone_are_lost_as_events(void **state _unused_)
{
    struct store_writer *writer = start();
    struct tick_box *box = make_tick(1000, 5);

    snapshot_unref(box->tick.snapshot);
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

static struct tick_box *make_beside(int64_t id, size_t events)
{
    struct tick_box *box = make_tick(id, events);

    tick_box_keep_lifecycle(box, "run");
    return box;
}

/* Another process stores the snapshots: none is stored or lost here. Losses are stored for the run.
 */
static void test_events_beside_another_writer(void **state _unused_)
{
    struct store_writer *writer = start();

    SET(is_blocked, true);
    for (int64_t i = 1; i <= STORE_QUEUE_MAX; i++)
        store_writer_tick(writer, make_beside(i, 0));
    store_writer_tick(writer, make_beside(1000, 0));
    store_writer_tick(writer, make_beside(1001, 5));
    SET(is_blocked, false);
    AWAIT(count_calls(CALL_TICK) == STORE_QUEUE_MAX);
    struct store_report report = stop(writer);
    assert_int_equal(report.stored, 0);
    assert_int_equal(report.dropped, 0);
    assert_int_equal(report.events_lost, 5);
    assert_int_equal(find_tick(0)->gaps, 1);
    assert_int_equal(find_tick(0)->events.lost, 5);
    assert_string_equal(find_tick(0)->beside_run, "run");
    ASSERT_NOTICES("the disk is too slow to store every snapshot; sampling continues",
                   "writing again; 5 events (1.00 s) were not stored");
}

/* ---- anomalies ---- */

/* The report of an episode that began at `began`, with the texts of that tick. */
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

/* They are written with the next tick, in their latest state, before the anomalies of that tick. */
static void test_anomalies_are_not_lost(void **state _unused_)
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

static void test_anomalies_at_the_end(void **state _unused_)
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

/* A tick whose write fails gives back the anomalies that it took along. */
static void test_anomalies_are_retried(void **state _unused_)
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

/* A disk that stays full does not fill memory: excess anomalies are counted as lost. */
static void test_number_of_kept_anomalies_is_limited(void **state _unused_)
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

static void test_anomalies_without_a_store(void **state _unused_)
{
    make_fail(CALL_OPEN, -EBADMSG, UINT_MAX);
    struct store_writer *writer = start();

    AWAIT(fake.notices.count == 1);
    store_writer_tick(writer, make_notice(1, 1001, true, false));
    store_writer_tick(writer, make_notice(2, 1002, true, false));
    assert_int_equal(ask(writer).events_lost, 2);
    assert_int_equal(stop(writer).events_lost, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_slow_store_drops_and_counts, fake_store_reset),
        cmocka_unit_test_setup(test_loss_at_the_end_is_stored, fake_store_reset),
        cmocka_unit_test_setup(test_events_alone_are_lost_as_events, fake_store_reset),
        cmocka_unit_test_setup(test_events_beside_another_writer, fake_store_reset),
        cmocka_unit_test_setup(test_anomalies_are_not_lost, fake_store_reset),
        cmocka_unit_test_setup(test_anomalies_at_the_end, fake_store_reset),
        cmocka_unit_test_setup(test_anomalies_are_retried, fake_store_reset),
        cmocka_unit_test_setup(test_number_of_kept_anomalies_is_limited, fake_store_reset),
        cmocka_unit_test_setup(test_anomalies_without_a_store, fake_store_reset),
    };
    return cmocka_run_group_tests(tests, NULL, fake_store_reset);
}
