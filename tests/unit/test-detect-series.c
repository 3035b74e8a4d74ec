/* Whole series, replayed: how the detector judges an hour of different loads. */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "detect-world.h"

static double random_part(void)
{
    return (double)(rand() % 10000) / 10000;
}

/* Servers whose load varies a little, an interactive user, an hourly job that uses a core for a
 * while. */
static void test_a_quiet_hour(void **state _unused_)
{
    _cleanup_world_ struct world *world = world_new(NULL, NULL);
    double level_mb[200];

    srand(1);
    world_add(world, WORLD_DAEMON_PID, "sonde daemon");
    for (int i = 0; i < 200; i++) {
        level_mb[i] = 1 + 900 * random_part();
        world_add(world, 1000 + i, "server");
    }
    for (int tick = 0; tick < 720; tick++) {
        for (int i = 0; i < 200; i++) {
            struct process_metric *process = world_find(world, 1000 + i);
            process->rss_mb = level_mb[i] * (0.9 + 0.2 * random_part());
            process->cpu_percent = i < 10 ? 120 * random_part() : 5 * random_part();
            process->open_fds = 20 + rand() % 700;
            process->state = "SSSSRD"[rand() % 6];
        }
        /* A backup: it uses a whole core for half a minute, and 400 MB from its start. */
        if (tick == 300) {
            struct process_metric *backup = world_add(world, 5000, "backup");
            backup->age_seconds = 0;
            backup->cpu_percent = REAL_UNKNOWN;
            backup->rss_mb = 4;
        } else if (tick > 300 && tick < 306) {
            world_find(world, 5000)->state = 'R';
            world_find(world, 5000)->cpu_percent = 100;
            world_find(world, 5000)->rss_mb += 80;
        } else if (tick == 306) {
            world_remove(world, 5000);
        }
        /* A child that its parent reaps a moment later. */
        if (tick % 50 == 0) {
            struct process_metric *child = world_add(world, 6000, "helper");
            child->ppid = WORLD_DAEMON_PID;
            child->state = 'Z';
            child->start_ticks = (uint64_t)tick;
        } else if (tick % 50 == 1) {
            world_remove(world, 6000);
        }
        world_tick(world, 5);
    }
    assert_int_equal(world->worst, 0);
}

/* 60 files, two at a time, at 100 ms: drivers that wait, compilers that grow until they end. */
static void test_a_compile(void **state _unused_)
{
    _cleanup_world_ struct world *world = world_new(NULL, NULL);
    int started = 0;
    int64_t compiling[2] = {0};
    int left[2] = {0};

    srand(2);
    world_put_into_job(world_add(world, 100, "make -j2"), "build", "run-1");
    while (started < 60 || left[0] || left[1]) {
        for (int i = 0; i < 2; i++) {
            if (left[i] && --left[i] == 0) {
                world_remove(world, compiling[i]);
                world_remove(world, compiling[i] + 1);
            }
            if (left[i] == 0 && started < 60) {
                compiling[i] = 1000 + 2 * started++;
                left[i] = 3 + rand() % (started % 10 ? 60 : 250);
                for (int k = 0; k < 2; k++) {
                    struct process_metric *process =
                        world_add(world, compiling[i] + k, k ? "cc1 -quiet x.c" : "gcc -c x.c");
                    world_put_into_job(process, "build", "run-1");
                    process->age_seconds = 0.05;
                    process->rss_mb = k ? 8 : 2;
                    process->state = k ? 'R' : 'S';
                }
            }
            struct process_metric *compiler = left[i] ? world_find(world, compiling[i] + 1) : NULL;
            if (compiler) {
                compiler->cpu_percent = 97 + 5 * random_part();
                /* Some do not grow for seconds, while they compute. */
                if (left[i] % 40 < 20)
                    compiler->rss_mb += 25 * random_part();
            }
        }
        world_tick(world, 0.1);
    }
    assert_true(world->worst <= SEVERITY_LOW);
    assert_int_equal(world->openings, 0);
}

/* A few megabytes per hour are no leak; 30 per hour for 12 hours are one. */
static size_t leaks_in_12_hours(double mb_an_hour, double *ret_growth_mb)
{
    _cleanup_world_ struct world *world = world_new(NULL, NULL);
    struct process_metric *process = world_add(world, 100, "agent");
    size_t openings = 0;

    srand(3);
    for (int tick = 0; tick < 12 * 720; tick++) {
        process->rss_mb = 300 + mb_an_hour * tick / 720 + 4 * random_part();
        process->cpu_percent = 20 * random_part();
        world_tick(world, 5);
        openings += world_opened(world, "memory_leak") != NULL;
    }
    assert_true(world->worst <= SEVERITY_MEDIUM);
    *ret_growth_mb = world->open.count ? world->open.items[0].metric_value : 0;
    assert_int_equal(world->clearings, 0);
    return openings;
}

static void test_a_leak_of_12_hours(void **state _unused_)
{
    double growth_mb;

    assert_int_equal(leaks_in_12_hours(30, &growth_mb), 1);
    assert_true(growth_mb > 200 && growth_mb < 370);
    assert_int_equal(leaks_in_12_hours(5, &growth_mb), 0);
}

/* A process that stops growing no longer leaks, and the episode ends. */
static void test_a_leak_that_ends(void **state _unused_)
{
    _cleanup_world_ struct world *world = world_new(NULL, NULL);
    struct process_metric *process = world_add(world, 100, "agent");

    process->rss_mb = 300;
    for (int tick = 0; tick < 720 * 6; tick++) {
        if (tick < 360)
            process->rss_mb += 0.5;
        world_tick(world, 5);
    }
    assert_int_equal(world->openings, 1);
    assert_int_equal(world->clearings, 1);
}

/* It loads for 25 s, then computes for two hours, with a checkpoint every ten minutes. */
static void test_a_training_run(void **state _unused_)
{
    _cleanup_world_ struct world *world = world_new(NULL, NULL);
    struct process_metric *trainer = world_add(world, 100, "python3 train.py");

    srand(4);
    world_put_into_job(trainer, "train", "run-1");
    trainer->age_seconds = 0.2;
    trainer->rss_mb = 40;
    trainer->state = 'R';
    trainer->cpu_percent = 99;
    for (int tick = 0; tick < 7200; tick++) {
        if (tick < 25)
            trainer->rss_mb += 300;
        else
            trainer->rss_mb = 7540 + (tick % 600 < 10 ? 800 : 0) + 20 * random_part();
        trainer->cpu_percent = 99 + 2 * random_part();
        world_tick(world, 1);
    }
    assert_int_equal(world->worst, SEVERITY_LOW);
    assert_int_equal(world->openings, 1); /* its CPU use is reported */
    assert_string_equal(world->open.items[0].anomaly_type, "runaway_process");
}

/* An anomaly that lasts a day is not reported repeatedly. */
static void test_anomaly_of_a_day_is_reported_once(void **state _unused_)
{
    _cleanup_world_ struct world *world = world_new(NULL, NULL);

    srand(5);
    for (int i = 0; i < 20; i++) {
        struct process_metric *process = world_add(world, 100 + i, "spin");
        process->cpu_percent = 100;
        process->open_fds = 5000;
    }
    for (int tick = 0; tick < 17280; tick++) {
        for (int i = 0; i < 20; i++)
            world_find(world, 100 + i)->cpu_percent = 98 + 4 * random_part();
        world_tick(world, 5);
    }
    assert_int_equal(world->openings, 40);
    assert_int_equal(world->changes + world->clearings, 0);
}

/* An endless series of short processes with anomalies; the detector keeps nothing of them. */
static void test_ended_processes_are_forgotten(void **state _unused_)
{
    _cleanup_world_ struct world *world = world_new(NULL, NULL);

    for (int round = 0; round < 300; round++) {
        world->snapshot.processes.count = 0;
        for (int i = 0; i < 50; i++)
            world_add(world, 100 + round * 50 + i, "short")->open_fds = 2000;
        world_tick(world, 1);
        assert_true(world->open.count <= 100);
    }
    assert_int_equal(world->openings, 15000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_quiet_hour),
        cmocka_unit_test(test_a_compile),
        cmocka_unit_test(test_a_leak_of_12_hours),
        cmocka_unit_test(test_a_leak_that_ends),
        cmocka_unit_test(test_a_training_run),
        cmocka_unit_test(test_anomaly_of_a_day_is_reported_once),
        cmocka_unit_test(test_ended_processes_are_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
