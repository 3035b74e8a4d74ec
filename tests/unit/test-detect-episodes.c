/* Episodes: when they open, what belongs to one, when they get worse, when they clear. */
#include "unit.h"

#include <string.h>

#include "base/macros.h"
#include "detect-world.h"

static struct world *world_with_pressure(void)
{
    struct world *world = world_new(NULL, NULL);

    world->snapshot.system_memory_available_mb = 100;
    world_tick(world, 5);
    assert_int_equal(world->openings, 1);
    return world;
}

static void test_an_episode_clears_after_three_snapshots_and_ten_seconds(void **state _unused_)
{
    static const struct {
        double interval;
        unsigned ticks;
    } cases[] = {{1, 10}, {5, 3}, {60, 3}, {0.1, 100}, {3.4, 3}, {3.3, 4}};

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_world_ struct world *world = world_with_pressure();
        double opened_at = world->snapshot.timestamp;

        world->snapshot.system_memory_available_mb = 8000;
        world_ticks(world, cases[i].ticks - 1, cases[i].interval);
        assert_int_equal(world->clearings, 0);
        assert_int_equal(world->open.count, 1);
        world_tick(world, cases[i].interval);
        const struct anomaly *anomaly = world_cleared(world, "memory_pressure");
        assert_non_null(anomaly);
        assert_true(anomaly->timestamp == opened_at);
        assert_int_equal(world->open.count, 0);
    }
}

static void test_episode_that_fires_again_stays_open(void **state _unused_)
{
    _cleanup_world_ struct world *world = world_with_pressure();

    for (int i = 0; i < 20; i++) {
        world->snapshot.system_memory_available_mb = i % 3 ? 8000 : 100;
        world_tick(world, 5);
    }
    assert_int_equal(world->openings, 1);
    assert_int_equal(world->changes + world->clearings, 0);
}

static void test_episode_is_reported_again_when_it_gets_worse(void **state _unused_)
{
    _cleanup_world_ struct world *world = world_new(NULL, NULL);
    struct process_metric *process = world_add(world, 7, "server");

    process->fd_limit = 10000;
    process->open_fds = 8000;
    world_ticks(world, 4, 5);
    assert_int_equal(world->openings, 1);
    assert_int_equal(world->changes, 0);
    process->open_fds = 9500;
    world_ticks(world, 4, 5);
    assert_int_equal(world->changes, 1);
    process->open_fds = 8000;
    world_ticks(world, 4, 5);
    /* The severity of an episode does not fall again. */
    assert_int_equal(world_open(world, "fd_exhaustion")->severity, SEVERITY_CRITICAL);
    assert_int_equal(world->changes, 1);
}

/* The clearing report has the worst figure, even if that was too small a change to report before.
 */
static void test_clearing_reports_the_worst_figure(void **state _unused_)
{
    _cleanup_world_ struct world *world = world_new(NULL, NULL);
    struct process_metric *process = world_add(world, 7, "server");

    process->open_fds = 1000;
    world_tick(world, 5);
    process->open_fds = 1400;
    world_tick(world, 5);
    process->open_fds = 10;
    world_ticks(world, 3, 5);
    const struct anomaly *anomaly = world_cleared(world, "fd_exhaustion");
    assert_int_equal(world->changes, 0);
    assert_true(anomaly->metric_value == 1400);
    assert_has(anomaly->description, "1,400 file");
}

static void test_an_episode_ends_with_its_process(void **state _unused_)
{
    _cleanup_world_ struct world *world = world_new(NULL, NULL);

    world_add(world, 7, "server")->open_fds = 2000;
    world_tick(world, 5);
    assert_true(detector_is_in_episode(world->detector, 7, 7));
    assert_false(detector_is_in_episode(world->detector, 7, 8));
    world_remove(world, 7);
    world_tick(world, 5);
    assert_int_equal(world->clearings, 0);
    world_tick(world, 5);
    assert_int_equal(world_cleared(world, "fd_exhaustion")->pid, 7);
    assert_false(detector_is_in_episode(world->detector, 7, 7));
}

static void test_a_process_that_one_snapshot_misses_is_not_gone(void **state _unused_)
{
    _cleanup_world_ struct world *world = world_new(NULL, NULL);

    for (int i = 0; i < 20; i++) {
        if (i % 2)
            world_remove(world, 7);
        else
            world_add(world, 7, "server")->open_fds = 2000;
        world_tick(world, 5);
    }
    assert_int_equal(world->openings, 1);
    assert_int_equal(world->changes + world->clearings, 0);
}

static void test_a_spike_over_a_missed_snapshot_is_seen(void **state _unused_)
{
    _cleanup_world_ struct world *world = world_new(NULL, NULL);

    world_add(world, 7, "server")->rss_mb = 200;
    world_tick(world, 5);
    world_remove(world, 7);
    world_tick(world, 5);
    world_add(world, 7, "server")->rss_mb = 900;
    world_tick(world, 5);
    assert_non_null(world_opened(world, "memory_spike"));
}

static void test_another_process_with_the_pid_is_another_episode(void **state _unused_)
{
    _cleanup_world_ struct world *world = world_new(NULL, NULL);
    struct process_metric *process = world_add(world, 7, "server");

    process->open_fds = 2000;
    process->rss_mb = 200;
    world_tick(world, 5);
    process->start_ticks = 99;
    process->rss_mb = 900; /* another one's memory is no growth */
    world_tick(world, 5);
    assert_int_equal(world->openings, 2);
    assert_int_equal(world->clearings, 1);
    assert_null(world_reported(world, "memory_spike"));
    assert_true(detector_is_in_episode(world->detector, 7, 99));
    assert_false(detector_is_in_episode(world->detector, 7, 7));
}

static void test_a_job_has_one_episode_of_a_kind(void **state _unused_)
{
    _cleanup_world_ struct world *world = world_new(NULL, NULL);

    for (int pid = 1; pid <= 3; pid++) {
        struct process_metric *process = world_add(world, pid, "server");
        world_put_into_job(process, "web", "run-1");
        process->open_fds = 1000 + pid * 10;
    }
    world_put_into_job(world_add(world, 9, "other"), "web", "run-2");
    world_find(world, 9)->open_fds = 2000;
    world_tick(world, 5);
    assert_int_equal(world->openings, 2);
    const struct anomaly *anomaly = &world->reported.items[0];
    /* The worst process gives its name. */
    assert_int_equal(anomaly->pid, 3);
    assert_string_equal(anomaly->description, "server (pid 3) has 1,030 file descriptors open (3 "
                                              "processes: pids 1, 2, 3)");
    for (int pid = 1; pid <= 3; pid++)
        assert_true(detector_is_in_episode(world->detector, pid, (uint64_t)pid));

    /* The processes end one after the other; the episode ends with the last, unchanged. */
    world_remove(world, 3);
    world_remove(world, 1);
    world_ticks(world, 4, 5);
    assert_int_equal(world->clearings, 0);
    assert_false(detector_is_in_episode(world->detector, 3, 3));
    world_remove(world, 2);
    world_ticks(world, 2, 5);
    anomaly = world_cleared(world, "fd_exhaustion");
    assert_int_equal(anomaly->pid, 3);
    assert_string_equal(anomaly->run_id, "run-1");
}

static void test_quiet_member_leaves_the_episode(void **state _unused_)
{
    _cleanup_world_ struct world *world = world_new(NULL, NULL);

    for (int pid = 1; pid <= 2; pid++) {
        struct process_metric *process = world_add(world, pid, "server");
        world_put_into_job(process, "web", "run-1");
        process->open_fds = 1000;
    }
    world_tick(world, 5);
    world_find(world, 1)->open_fds = 10;
    world_ticks(world, 3, 5);
    assert_false(detector_is_in_episode(world->detector, 1, 1));
    assert_true(detector_is_in_episode(world->detector, 2, 2));
    assert_int_equal(world->clearings, 0);
}

static void test_the_end_of_a_run_clears_its_episodes(void **state _unused_)
{
    _cleanup_world_ struct world *world = world_new(NULL, NULL);

    for (int pid = 1; pid <= 2; pid++) {
        struct process_metric *process = world_add(world, pid, "server");
        world_put_into_job(process, "web", pid == 1 ? "run-1" : "run-2");
        process->open_fds = 1000;
    }
    world_tick(world, 5);
    detector_end_run(world->detector, "run-1");
    detector_end_run(world->detector, "no-such-run");
    assert_int_equal(detector_open_count(world->detector), 2);
    /* The rest belongs to no job, and is a new episode. */
    world_find(world, 1)->job_id = world_find(world, 1)->run_id = NULL;
    world_tick(world, 5);
    assert_int_equal(world->clearings, 1);
    assert_int_equal(world->openings, 3);
    assert_string_equal(world->reported.items[1].run_id, "run-1");
    assert_true(real_is_known(world->reported.items[1].cleared_at));
    assert_string_equal(world->open.items[0].run_id, "run-2");
    assert_null(world->open.items[1].run_id);
}

static void test_thresholds_can_change(void **state _unused_)
{
    _cleanup_world_ struct world *world = world_new(NULL, NULL);
    struct anomaly_config config = world_config();

    world_add(world, 7, "server")->open_fds = 500;
    world_tick(world, 5);
    config.fd_exhaustion_threshold = 500;
    detector_configure(world->detector, &config);
    world_tick(world, 5);
    assert_non_null(world_opened(world, "fd_exhaustion"));
}

static void test_clearing_time_can_change(void **state _unused_)
{
    _cleanup_world_ struct world *world = world_with_pressure();
    struct anomaly_config config = world_config();

    world->snapshot.system_memory_available_mb = 8000;
    world_ticks(world, 8, 1);
    assert_int_equal(world->clearings, 0);
    config.clear_seconds = 20;
    detector_configure(world->detector, &config);
    world_ticks(world, 11, 1);
    assert_int_equal(world->clearings, 0);
    world_tick(world, 1);
    assert_int_equal(world->clearings, 1);

    /* With a time of 0, three snapshots are needed. */
    world->snapshot.system_memory_available_mb = 100;
    world_tick(world, 1);
    config.clear_seconds = 0;
    detector_configure(world->detector, &config);
    world->snapshot.system_memory_available_mb = 8000;
    world_ticks(world, 2, 0.01);
    assert_int_equal(world->clearings, 1);
    world_tick(world, 0.01);
    assert_int_equal(world->clearings, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_episode_clears_after_three_snapshots_and_ten_seconds),
        cmocka_unit_test(test_episode_that_fires_again_stays_open),
        cmocka_unit_test(test_episode_is_reported_again_when_it_gets_worse),
        cmocka_unit_test(test_clearing_reports_the_worst_figure),
        cmocka_unit_test(test_an_episode_ends_with_its_process),
        cmocka_unit_test(test_a_process_that_one_snapshot_misses_is_not_gone),
        cmocka_unit_test(test_a_spike_over_a_missed_snapshot_is_seen),
        cmocka_unit_test(test_another_process_with_the_pid_is_another_episode),
        cmocka_unit_test(test_a_job_has_one_episode_of_a_kind),
        cmocka_unit_test(test_quiet_member_leaves_the_episode),
        cmocka_unit_test(test_the_end_of_a_run_clears_its_episodes),
        cmocka_unit_test(test_thresholds_can_change),
        cmocka_unit_test(test_clearing_time_can_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
