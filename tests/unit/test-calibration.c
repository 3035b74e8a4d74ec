/* Calibration of histories that can be counted by hand. */
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "learn/calibration.h"

static struct calibrator calibrator;
static struct arena arena;
static double now;

static bool is_sure(const struct resource_estimate *estimate)
{
    return estimate->confidence >= 0.5;
}

static int start(void **state _unused_)
{
    calibrator_init(&calibrator, &learn_constants_default, is_sure);
    now = 1000;
    return 0;
}

static int finish(void **state _unused_)
{
    calibrator_done(&calibrator);
    arena_done(&arena);
    return 0;
}

static struct run_digest digest_of(const char *type, double memory_mb)
{
    struct run_digest run = {0};

    record_init(&job_record, &run.job);
    run.job.job_type = type;
    run.job.outcome = OUTCOME_SUCCESS;
    run.job.started_at = now;
    run.job.ended_at = now += 10;
    run.job.profile.wall_seconds = 10;
    run.job.profile.cpu_seconds = 4;
    run.job.profile.peak_unique_mb = memory_mb;
    return run;
}

static void add(const struct run_digest *run)
{
    assert_int_equal(calibrator_add(&calibrator, run), 0);
}

static void add_run(const char *type, double memory_mb)
{
    struct run_digest run = digest_of(type, memory_mb);
    add(&run);
}

static struct calibration_list calibrate(void)
{
    struct calibration_list list;

    assert_int_equal(calibrator_make(&calibrator, &arena, &list), 0);
    return list;
}

static void test_no_runs(void **state _unused_)
{
    assert_int_equal(calibrate().count, 0);
    add_run("make", 100);
    add_run("test", 100); /* the first of its type, too */
    struct run_digest odd = digest_of(NULL, 100);
    add(&odd);
    odd = digest_of("make", 100);
    odd.job.outcome = OUTCOME_RUNNING;
    add(&odd);
    odd.job.outcome = OUTCOME_UNKNOWN;
    odd.job.cause = "lost";
    add(&odd);
    assert_int_equal(calibrate().count, 0);
}

static void test_estimates_that_are_high_enough(void **state _unused_)
{
    for (int i = 0; i < 21; i++)
        add_run("make", 100);
    struct calibration_list list = calibrate();
    assert_int_equal(list.count, 1);
    const struct calibration *found = &list.items[0];
    assert_string_equal(found->job_type, "make");
    assert_int_equal(found->runs, 20);
    assert_int_equal(found->memory.checked, 20);
    assert_int_equal(found->memory.held, 20);
    assert_true(found->memory.rate == 1);
    assert_true(found->memory.rate_low > 0.8 && found->memory.rate_high == 1);
    assert_int_equal(found->cpu.held, 20);
    assert_int_equal(found->duration.held, 20);
    /* n / (n + 5) is 0.5 from five runs on. */
    assert_int_equal(found->memory_when_sure.checked, 16);
}

static void test_growing_memory_exceeds_every_estimate(void **state _unused_)
{
    for (int i = 0; i < 11; i++)
        add_run("train", 100 + i);
    struct calibration_list list = calibrate();
    assert_int_equal(list.items[0].memory.checked, 10);
    assert_int_equal(list.items[0].memory.held, 0);
    assert_int_equal(list.items[0].cpu.held, 10);
}

/* Only runs that had ended when a run began are used for its estimate. */
static void test_simultaneous_runs_are_independent(void **state _unused_)
{
    for (int i = 0; i < 5; i++) {
        now = 1000;
        add_run("make", 100 + i);
    }
    assert_int_equal(calibrate().count, 0);
    now = 1010;
    add_run("make", 103.8); /* p95 of 100 to 104 */
    add_run("make", 500);
    struct calibration_list list = calibrate();
    assert_int_equal(list.items[0].memory.checked, 2);
    assert_int_equal(list.items[0].memory.held, 1);
}

/* A run must not be part of its own estimate. */
static void test_run_that_ended_before_it_began(void **state _unused_)
{
    for (int i = 0; i < 3; i++) {
        struct run_digest run = digest_of("make", 100);
        run.job.ended_at = run.job.started_at - 3600;
        add(&run);
    }
    assert_int_equal(calibrate().count, 0);
}

static void test_a_run_killed_for_memory(void **state _unused_)
{
    add_run("make", 100);
    struct run_digest killed = digest_of("make", 80); /* what it would have needed is unknown */
    killed.job.outcome = OUTCOME_FAILURE;
    killed.job.profile.oom_count = 1;
    add(&killed);
    struct calibration_list list = calibrate();
    assert_int_equal(list.items[0].runs, 1);
    assert_int_equal(list.items[0].memory.checked, 0);
    assert_false(real_is_known(list.items[0].memory.rate));

    killed = digest_of("make", 900); /* more than estimated in any case */
    killed.job.outcome = OUTCOME_FAILURE;
    killed.job.profile.oom_count = 1;
    add(&killed);
    list = calibrate();
    assert_int_equal(list.items[0].memory.checked, 1);
    assert_int_equal(list.items[0].memory.held, 0);
}

static void test_many_types(void **state _unused_)
{
    char name[16];

    for (int round = 0; round < 3; round++)
        for (int i = 0; i < 40; i++) {
            snprintf(name, sizeof(name), "type-%02d", i);
            for (int k = 0; k <= i; k++)
                add_run(name, 10 + i);
        }
    struct calibration_list list = calibrate();
    assert_int_equal(list.count, 40);
    for (int i = 0; i < 40; i++) { /* types with the most runs first */
        snprintf(name, sizeof(name), "type-%02d", 39 - i);
        assert_string_equal(list.items[i].job_type, name);
        assert_int_equal(list.items[i].runs, 3 * (40 - i) - 1);
        assert_int_equal(list.items[i].memory.held, list.items[i].memory.checked);
    }
}

/* The p95 of the latest 200 runs: older, larger runs have no effect. */
static void test_only_the_latest_count(void **state _unused_)
{
    for (int i = 0; i < 200; i++)
        add_run("make", 1000);
    for (int i = 0; i < 200; i++)
        add_run("make", 100);
    add_run("make", 500);
    struct calibration_list list = calibrate();
    assert_int_equal(list.items[0].memory.checked, 400);
    assert_int_equal(list.items[0].memory.held, 399);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, start, finish)
    const struct CMUnitTest tests[] = {
        TEST(test_no_runs),
        TEST(test_estimates_that_are_high_enough),
        TEST(test_growing_memory_exceeds_every_estimate),
        TEST(test_simultaneous_runs_are_independent),
        TEST(test_run_that_ended_before_it_began),
        TEST(test_a_run_killed_for_memory),
        TEST(test_many_types),
        TEST(test_only_the_latest_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
