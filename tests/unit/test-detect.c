/* The anomaly rules, each at its limits. */
#include "unit.h"

#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "detect-world.h"

/* ---- memory_spike ---- */

static void test_spike_needs_ratio_and_growth(void **state _unused_)
{
    static const struct {
        double from, to;
        int severity; /* 0: none */
    } cases[] = {
        {200, 299.9, 0},
        {200, 300, SEVERITY_HIGH},
        {200, 599.9, SEVERITY_HIGH},
        {200, 600, SEVERITY_CRITICAL},
        {199, 298.9, 0},
        {100, 199.9, 0},
        {100, 200, SEVERITY_HIGH},
        {0, 5000, 0},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_world_ struct world *world = world_new(NULL, NULL);
        struct process_metric *process = world_add(world, 7, "server");

        process->rss_mb = cases[i].from;
        world_tick(world, 5);
        process->rss_mb = cases[i].to;
        world_tick(world, 5);
        const struct anomaly *anomaly = world_opened(world, "memory_spike");
        assert_int_equal(anomaly ? anomaly->severity : 0, cases[i].severity);
        if (!anomaly)
            continue;
        assert_true(anomaly->metric_value == cases[i].to);
        assert_true(anomaly->threshold == cases[i].from * 1.5);
        assert_int_equal(anomaly->pid, 7);
        assert_int_equal(anomaly->uid, 1000);
        assert_null(anomaly->run_id);
    }
}

static void test_spike_description(void **state _unused_)
{
    _cleanup_world_ struct world *world = world_new(NULL, NULL);
    struct process_metric *process = world_add(world, 4711, "python3 train.py\n\x1b[31m");

    process->rss_mb = 210;
    world_ticks(world, 3, 5);
    process->rss_mb = 2150.4;
    world_tick(world, 5);
    assert_string_equal(world_opened(world, "memory_spike")->description,
                        "python3 train.py\\n\\x1b[31m (pid 4711) grew from 210.0 MB to 2.10 GB in "
                        "5.00 s");
}

static void test_spike_of_a_long_command_is_cut(void **state _unused_)
{
    char command[501];
    _cleanup_world_ struct world *world = world_new(NULL, NULL);

    memset(command, 'x', sizeof(command) - 1);
    command[sizeof(command) - 1] = '\0';
    struct process_metric *process = world_add(world, 4711, command);
    process->rss_mb = 210;
    world_tick(world, 5);
    process->rss_mb = 2150.4;
    world_tick(world, 5);
    const char *description = world_opened(world, "memory_spike")->description;
    assert_has(description, "xxx… (pid 4711) grew");
    assert_true(strlen(description) < 150);
}

static void test_spike_baseline_is_the_earliest_in_the_window(void **state _unused_)
{
    _cleanup_world_ struct world *world = world_new(NULL, NULL);
    struct process_metric *process = world_add(world, 7, "server");

    /* 10 s apart: when 300 is read, 200 is 30 s old, which is still inside the window. */
    const double rss[] = {200, 230, 265, 300};
    for (size_t i = 0; i < ARRAY_SIZE(rss); i++) {
        process->rss_mb = rss[i];
        world_tick(world, 10);
    }
    assert_true(world_opened(world, "memory_spike")->threshold == 300);
}

static void test_spike_forgets_what_is_outside_the_window(void **state _unused_)
{
    _cleanup_world_ struct world *world = world_new(NULL, NULL);
    struct process_metric *process = world_add(world, 7, "server");

    const double rss[] = {200, 230, 265, 300};
    for (size_t i = 0; i < ARRAY_SIZE(rss); i++) {
        process->rss_mb = rss[i];
        world_tick(world, 10.001);
    }
    assert_int_equal(world->openings, 0);
}

static void test_spike_over_a_gap_is_compared_with_the_last_snapshot(void **state _unused_)
{
    _cleanup_world_ struct world *world = world_new(NULL, NULL);
    struct process_metric *process = world_add(world, 7, "server");

    process->rss_mb = 200;
    world_tick(world, 5);
    process->rss_mb = 300;
    world_tick(world, 600);
    assert_non_null(world_opened(world, "memory_spike"));
}

/* At 10 ms there are more snapshots than the history keeps; one per 117 ms suffices. */
static void test_spike_at_short_intervals(void **state _unused_)
{
    _cleanup_world_ struct world *world = world_new(NULL, NULL);
    struct process_metric *process = world_add(world, 7, "server");

    process->rss_mb = 200;
    for (int i = 0; i < 2990; i++) {
        process->rss_mb += 0.04; /* to 319.6 in 29.9 s */
        world_tick(world, 0.01);
        if (process->rss_mb < 300)
            assert_int_equal(world->openings, 0);
    }
    assert_int_equal(world->openings, 1);
}

static void test_spike_by_unknown_memory_is_none(void **state _unused_)
{
    _cleanup_world_ struct world *world = world_new(NULL, NULL);
    struct process_metric *process = world_add(world, 7, "server");

    process->rss_mb = REAL_UNKNOWN;
    world_tick(world, 5);
    process->rss_mb = 900;
    world_tick(world, 5);
    process->rss_mb = REAL_UNKNOWN;
    world_tick(world, 5);
    assert_int_equal(world->openings, 0);
    process->rss_mb = 1350;
    world_tick(world, 5);
    assert_true(world_opened(world, "memory_spike")->threshold == 1350);
}

/* Like a compiler: it grows while it computes. */
static void test_a_start_is_no_spike(void **state _unused_)
{
    _cleanup_world_ struct world *world = world_new(NULL, NULL);
    struct process_metric *process = world_add(world, 7, "cc1");

    process->age_seconds = 0;
    process->rss_mb = 5;
    for (int i = 0; i < 250; i++) {
        process->rss_mb *= 1.02;
        world_tick(world, 0.1);
    }
    assert_true(process->rss_mb > 600);
    assert_int_equal(world->openings, 0);
}

/* Or in steps, with seconds of computing between them. */
static void test_a_start_is_not_over_while_it_computes(void **state _unused_)
{
    static const struct {
        char state;
        double cpu;
        size_t openings;
    } cases[] = {{'R', 0, 0},  {'R', 100, 0},          {'D', 3, 0}, {'S', 100, 0},
                 {'S', 50, 0}, {'S', REAL_UNKNOWN, 0}, {'S', 49, 1}};

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_world_ struct world *world = world_new(NULL, NULL);
        struct process_metric *process = world_add(world, 7, "rustc");

        process->age_seconds = 0;
        process->state = cases[i].state;
        process->cpu_percent = cases[i].cpu;
        for (int step = 0; step < 5; step++) {
            process->rss_mb = 100 * (1 << step);
            world_ticks(world, 40, 0.1);
        }
        assert_int_equal(world->openings, cases[i].openings);
    }
}

static void test_a_start_is_over_when_memory_is_stable(void **state _unused_)
{
    _cleanup_world_ struct world *world = world_new(NULL, NULL);
    struct process_metric *process = world_add(world, 7, "python3");

    process->age_seconds = 0;
    process->rss_mb = 50;
    world_ticks(world, 11, 0.1); /* 1.0 s between the first and the last */
    process->rss_mb = 400;
    world_tick(world, 0.1);
    assert_true(world_opened(world, "memory_spike")->threshold == 75);
}

static void test_a_start_is_not_over_before(void **state _unused_)
{
    _cleanup_world_ struct world *world = world_new(NULL, NULL);
    struct process_metric *process = world_add(world, 7, "python3");

    process->age_seconds = 0;
    process->rss_mb = 50;
    world_ticks(world, 10, 0.1);
    process->rss_mb = 400;
    world_ticks(world, 600, 0.1);
    assert_int_equal(world->openings, 0);
}

static void test_a_start_is_over_after_a_window(void **state _unused_)
{
    _cleanup_world_ struct world *world = world_new(NULL, NULL);
    struct process_metric *process = world_add(world, 7, "grows");

    process->age_seconds = 0;
    process->rss_mb = 100;
    /* It grows by 12 % per second. At 30 s its start is over, and 4 s later it is half as large
     * again. */
    for (int i = 0; i < 33; i++) {
        world_tick(world, 1);
        assert_int_equal(world->openings, 0);
        process->rss_mb *= 1.12;
    }
    world_tick(world, 1);
    assert_int_equal(world->openings, 1);
}

static void test_a_new_program_starts_again(void **state _unused_)
{
    _cleanup_world_ struct world *world = world_new(NULL, NULL);
    struct process_metric *process = world_add(world, 7, "sh");

    process->rss_mb = 3;
    world_ticks(world, 20, 1);
    world_happen(world, EVENT_EXEC, 7);
    for (int i = 0; i < 20; i++) {
        process->rss_mb *= 1.5;
        world_tick(world, 1);
    }
    assert_int_equal(world->openings, 0);
}

/* ---- runaway_process ---- */

static void test_runaway_lasts_for_the_duration(void **state _unused_)
{
    _cleanup_world_ struct world *world = world_new(NULL, NULL);
    struct process_metric *process = world_add(world, 7, "spin");

    process->cpu_percent = 90;
    world_ticks(world, 12, 5); /* 55 s between the first and the last */
    assert_int_equal(world->openings, 0);
    process->cpu_percent = 180;
    world_tick(world, 5);
    const struct anomaly *anomaly = world_opened(world, "runaway_process");
    assert_int_equal(anomaly->severity, SEVERITY_CRITICAL);
    assert_true(anomaly->metric_value == 180 && anomaly->threshold == 90);
    assert_string_equal(anomaly->description,
                        "spin (pid 7) has been at 90 % CPU or more for 1 m 00 s, now 180 %");
}

static void test_runaway_is_low_in_a_job(void **state _unused_)
{
    _cleanup_world_ struct world *world = world_new(NULL, NULL);
    struct process_metric *process = world_add(world, 7, "spin");

    world_put_into_job(process, "train", "run-1");
    process->cpu_percent = 100;
    world_ticks(world, 13, 5);
    const struct anomaly *anomaly = world_opened(world, "runaway_process");
    assert_int_equal(anomaly->severity, SEVERITY_LOW);
    assert_string_equal(anomaly->job_id, "train");
    assert_string_equal(anomaly->run_id, "run-1");
    assert_int_equal(anomaly->sheet_num, 3);
}

static void test_runaway_is_broken_by(double cpu, bool is_missing)
{
    _cleanup_world_ struct world *world = world_new(NULL, NULL);
    struct process_metric *process = world_add(world, 7, "spin");

    process->cpu_percent = 100;
    world_ticks(world, 12, 5);
    if (is_missing)
        world_remove(world, 7);
    else
        process->cpu_percent = cpu;
    world_tick(world, 5);
    if (is_missing)
        process = world_add(world, 7, "spin");
    process->cpu_percent = 100;
    world_ticks(world, 12, 5);
    assert_int_equal(world->openings, 0);
    world_tick(world, 5);
    assert_int_equal(world->openings, 1);
}

static void test_runaway_is_broken(void **state _unused_)
{
    test_runaway_is_broken_by(89.99, false);
    test_runaway_is_broken_by(REAL_UNKNOWN, false);
    test_runaway_is_broken_by(0, true);
}

/* ---- zombie ---- */

static void test_zombies_below_sonde(void **state _unused_)
{
    _cleanup_world_ struct world *world = world_new(NULL, NULL);

    world_add(world, WORLD_DAEMON_PID, "sonde");
    world_add(world, 60, "helper")->ppid = WORLD_DAEMON_PID;
    struct process_metric *zombie = world_add(world, 61, "true");
    zombie->ppid = 60;
    zombie->state = 'Z';
    world_add(world, 62, "other")->state = 'Z'; /* of another parent */
    world_tick(world, 1);
    world_tick(world, 1);
    assert_int_equal(world->openings, 0);
    world_tick(world, 1);
    const struct anomaly *anomaly = world_opened(world, "zombie");
    assert_int_equal(anomaly->severity, SEVERITY_HIGH);
    assert_int_equal(anomaly->pid, 61);
    assert_true(anomaly->metric_value == 1);
    assert_string_equal(anomaly->description,
                        "1 process has ended and not been reaped by its parent: pid 61");
    assert_int_equal(world->openings, 1);
}

static void test_zombie_needs_two_snapshots(void **state _unused_)
{
    _cleanup_world_ struct world *world = world_new(NULL, NULL);
    struct process_metric *zombie = world_add(world, 61, "true");

    world_put_into_job(zombie, "make", "run-1");
    zombie->state = 'Z';
    world_tick(world, 60);
    assert_int_equal(world->openings, 0);
    world_tick(world, 2);
    assert_int_equal(world->openings, 1);
}

static void test_zombies_of_a_job_are_one_episode(void **state _unused_)
{
    _cleanup_world_ struct world *world = world_new(NULL, NULL);

    for (int i = 0; i < 20; i++) {
        struct process_metric *zombie = world_add(world, 100 + i, "true");
        world_put_into_job(zombie, "make", "run-1");
        zombie->state = 'Z';
    }
    world_ticks(world, 2, 2);
    const struct anomaly *anomaly = world_opened(world, "zombie");
    assert_true(anomaly->metric_value == 20);
    assert_string_equal(anomaly->description,
                        "20 processes have ended and not been reaped by their parent: pids 100, "
                        "101, 102, 103, 104, 105, 106, 107 and 12 more");
    /* Half as many more is worse. */
    for (int i = 20; i < 30; i++) {
        struct process_metric *zombie = world_add(world, 100 + i, "true");
        world_put_into_job(zombie, "make", "run-1");
        zombie->state = 'Z';
    }
    world_ticks(world, 2, 2);
    assert_int_equal(world->openings, 1);
    assert_int_equal(world->changes, 1);
    assert_true(world_reported(world, "zombie")->metric_value == 30);
    assert_int_equal(world_reported(world, "zombie")->pid, 100);
}

static void test_a_ring_of_parents_ends(void **state _unused_)
{
    _cleanup_world_ struct world *world = world_new(NULL, NULL);

    world_add(world, 60, "a")->ppid = 61;
    struct process_metric *zombie = world_add(world, 61, "b");
    zombie->ppid = 60;
    zombie->state = 'Z';
    world_ticks(world, 5, 2);
    assert_int_equal(world->openings, 0);
}

/* ---- fd_exhaustion ---- */

static void test_fds(void **state _unused_)
{
    static const struct {
        int64_t open, limit;
        int severity;
        double threshold;
    } cases[] = {
        {999, INT_UNKNOWN, 0, 0},
        {1000, INT_UNKNOWN, SEVERITY_HIGH, 1000},
        {100000, INT_UNKNOWN, SEVERITY_HIGH, 1000}, /* the limit is unknown */
        {799, 1000, 0, 0},
        {800, 1000, SEVERITY_HIGH, 800},
        {949, 1000, SEVERITY_HIGH, 800},
        {950, 1000, SEVERITY_CRITICAL, 800},
        {999, 4096, 0, 0},
        {1000, 4096, SEVERITY_HIGH, 1000}, /* a small limit: either counts */
        {1000, 4097, 0, 0},
        {3277, 4097, 0, 0},
        {3278, 4097, SEVERITY_HIGH, 0.8 * 4097},
        {1000000, INT64_MAX, 0, 0}, /* no limit at all */
        {INT_UNKNOWN, 1024, 0, 0},
        {INT_UNKNOWN, INT_UNKNOWN, 0, 0},
        {0, 0, 0, 0},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_world_ struct world *world = world_new(NULL, NULL);
        struct process_metric *process = world_add(world, 7, "server");

        process->open_fds = cases[i].open;
        process->fd_limit = cases[i].limit;
        world_tick(world, 5);
        const struct anomaly *anomaly = world_opened(world, "fd_exhaustion");
        assert_int_equal(anomaly ? anomaly->severity : 0, cases[i].severity);
        if (anomaly)
            assert_true(anomaly->threshold == cases[i].threshold);
    }
}

static void test_fds_description(void **state _unused_)
{
    _cleanup_world_ struct world *world = world_new(NULL, NULL);
    struct process_metric *limited = world_add(world, 7, "server");

    limited->open_fds = 950;
    limited->fd_limit = 1024;
    world_tick(world, 5);
    assert_string_equal(world_opened(world, "fd_exhaustion")->description,
                        "server (pid 7) has 950 of 1,024 file descriptors open");
    world_add(world, 8, NULL)->open_fds = 1200;
    world_tick(world, 5);
    assert_string_equal(world_opened(world, "fd_exhaustion")->description,
                        "pid 8 has 1,200 file descriptors open");
}

/* ---- the machine ---- */

static void test_memory_pressure(void **state _unused_)
{
    _cleanup_world_ struct world *world = world_new(NULL, NULL);

    world->snapshot.system_memory_total_mb = 10000;
    world->snapshot.system_memory_available_mb = 1000;
    world_tick(world, 5);
    assert_int_equal(world->openings, 0);
    world->snapshot.system_memory_available_mb = 999;
    world_tick(world, 5);
    const struct anomaly *anomaly = world_opened(world, "memory_pressure");
    assert_int_equal(anomaly->severity, SEVERITY_CRITICAL);
    assert_true(anomaly->metric_value == 999 && anomaly->threshold == 1000);
    assert_false(int_is_known(anomaly->pid));
    assert_false(int_is_known(anomaly->uid));
    assert_string_equal(anomaly->description, "999.0 MB of 9.77 GB of memory are available");
    /* Less is worse. */
    world->snapshot.system_memory_available_mb = 667;
    world_tick(world, 5);
    assert_int_equal(world->changes, 0);
    world->snapshot.system_memory_available_mb = 665;
    world_tick(world, 5);
    assert_int_equal(world->changes, 1);
    world->snapshot.system_memory_available_mb = 0;
    world_ticks(world, 5, 5);
    assert_int_equal(world->changes, 2);
    world->snapshot.system_memory_available_mb = REAL_UNKNOWN;
    world_ticks(world, 3, 5);
    assert_true(world_cleared(world, "memory_pressure")->metric_value == 0);
}

static void test_memory_pressure_of_an_unknown_machine_is_none(void **state _unused_)
{
    _cleanup_world_ struct world *world = world_new(NULL, NULL);

    world->snapshot.system_memory_total_mb = REAL_UNKNOWN;
    world_tick(world, 5);
    world->snapshot.system_memory_total_mb = 0;
    world->snapshot.system_memory_available_mb = 0;
    world_tick(world, 5);
    assert_int_equal(world->openings, 0);
}

static void test_oom_kill(void **state _unused_)
{
    _cleanup_world_ struct world *world = world_new(NULL, NULL);

    world_add(world, 7, "hog");
    world_tick(world, 5);
    world_remove(world, 7);
    struct process_event *event = world_happen(world, EVENT_OOM, 7);
    event->command = "hog";
    event->peak_rss_mb = 3072;
    world_tick(world, 5);
    const struct anomaly *anomaly = world_opened(world, "oom_kill");
    assert_int_equal(anomaly->severity, SEVERITY_CRITICAL);
    assert_int_equal(anomaly->pid, 7);
    assert_int_equal(anomaly->uid, 1000);
    assert_true(anomaly->metric_value == 3072);
    assert_string_equal(anomaly->description, "hog (pid 7) was killed by the kernel for "
                                              "memory (OOM), when it had 3.00 GB");
    /* The process is gone, but the episode lasts. */
    world_ticks(world, 2, 5);
    assert_int_equal(world->clearings, 0);
    world_tick(world, 5);
    assert_non_null(world_cleared(world, "oom_kill"));
}

/* The event arrives when the process is forgotten and its pid belongs to another user. */
static void test_oom_kill_that_is_reported_late(void **state _unused_)
{
    _cleanup_world_ struct world *world = world_new(NULL, NULL);

    world_add(world, 7, "editor");
    world_tick(world, 5);
    struct process_event *event = world_happen(world, EVENT_OOM, 7);
    event->command = "hog";
    event->uid = 1001;
    world_tick(world, 5);
    const struct anomaly *anomaly = world_opened(world, "oom_kill");
    assert_int_equal(anomaly->uid, 1001);
    assert_string_equal(anomaly->description,
                        "hog (pid 7) was killed by the kernel for memory (OOM)");
}

static void test_oom_kill_without_an_owner_shows_no_command(void **state _unused_)
{
    _cleanup_world_ struct world *world = world_new(NULL, NULL);

    struct process_event *event = world_happen(world, EVENT_OOM, 7);
    event->command = "mysql --password=geheim";
    world_tick(world, 5);
    const struct anomaly *anomaly = world_opened(world, "oom_kill");
    assert_false(int_is_known(anomaly->uid));
    assert_string_equal(anomaly->description, "pid 7 was killed by the kernel for memory (OOM)");
}

/* A job may have processes of several users; its anomaly may name them all. */
static void test_anomaly_of_a_job_belongs_to_its_owner(void **state _unused_)
{
    _cleanup_world_ struct world *world = world_new(NULL, NULL);
    struct process_metric *process = world_add(world, 7, "server");

    world_put_into_job(process, "make", "run-1");
    world->snapshot.jobs = (struct job_usage_list){
        &(struct job_usage){.job_id = "make", .run_id = "run-1", .uid = 2000}, 1};
    process->rss_mb = 100;
    world_tick(world, 5);
    process->rss_mb = 1000;
    world_tick(world, 5);
    assert_int_equal(world_opened(world, "memory_spike")->uid, 2000);
}

static void test_oom_kills_of_a_job_are_one_episode(void **state _unused_)
{
    _cleanup_world_ struct world *world = world_new(NULL, NULL);

    world_put_into_job(world_add(world, 5, "make"), "make", "run-1");
    world->snapshot.jobs = (struct job_usage_list){
        &(struct job_usage){.job_id = "make", .run_id = "run-1", .uid = 2000}, 1};
    for (int i = 0; i < 3; i++) {
        struct process_event *event = world_happen(world, EVENT_OOM, i ? 100 + i : INT_UNKNOWN);
        event->run_id = "run-1";
        event->job_id = "make";
        event->command = "cc1";
    }
    world_happen(world, EVENT_OOM, INT_UNKNOWN)->run_id = "run-2";
    world_tick(world, 5);
    assert_int_equal(world->openings, 2);
    /* The uid is that of the run, if it is known. */
    assert_int_equal(world->reported.items[0].uid, 2000);
    assert_has(world->reported.items[0].description, "cc1 was killed");
    assert_has(world->reported.items[0].description, "(2 processes: pids 101, 102)");
    assert_false(int_is_known(world->reported.items[1].uid));
    world_happen(world, EVENT_OOM, INT_UNKNOWN)->run_id = "run-1";
    world_happen(world, EVENT_OOM, INT_UNKNOWN)->run_id = "run-2";
    world_ticks(world, 3, 5);
    assert_int_equal(world->clearings, 0);
    assert_int_equal(world->openings, 2);
}

/* ---- memory_leak ---- */

static void test_leak_needs_ten_minutes(void **state _unused_)
{
    _cleanup_world_ struct world *world = world_new(NULL, NULL);
    struct process_metric *process = world_add(world, 7, "leaky");

    process->rss_mb = 100;
    for (int i = 0; i < 120; i++) { /* 595 s from the first to the last */
        process->rss_mb += 2;
        world_tick(world, 5);
        assert_int_equal(world->openings, 0);
    }
    world_tick(world, 5);
    const struct anomaly *anomaly = world_opened(world, "memory_leak");
    assert_int_equal(anomaly->severity, SEVERITY_MEDIUM);
    assert_true(anomaly->threshold == 100);
    assert_true(anomaly->metric_value > 230 && anomaly->metric_value <= 240);
    assert_has(anomaly->description, "leaky (pid 7) has grown by 23");
    assert_has(anomaly->description, "MB in 10 m 00 s without a pause");
}

static void test_leak_is_found_at_short_intervals(void **state _unused_)
{
    _cleanup_world_ struct world *world = world_new(NULL, NULL);
    struct process_metric *process = world_add(world, 7, "leaky");

    process->rss_mb = 100;
    for (int i = 0; i < 6200; i++) {
        process->rss_mb += 0.05;
        world_tick(world, 0.1);
    }
    assert_non_null(world_open(world, "memory_leak"));
    assert_int_equal(world->openings, 1);
}

static int leaks_of_growth(double from, double step, double noise, unsigned every)
{
    _cleanup_world_ struct world *world = world_new(NULL, NULL);
    struct process_metric *process = world_add(world, 7, "grows");
    int openings = 0;

    for (int i = 0; i < 200; i++) {
        process->rss_mb = from + step * (double)(i / (int)every) + (i % 3 ? noise : 0);
        world_tick(world, 5);
        openings += world_opened(world, "memory_leak") != NULL;
    }
    return openings;
}

static void test_leak_needs_growth(void **state _unused_)
{
    assert_int_equal(leaks_of_growth(100, 0.6, 0, 1), 1);
    assert_int_equal(leaks_of_growth(100, 0.4, 0, 1), 0);  /* under 100 MB */
    assert_int_equal(leaks_of_growth(1000, 1.0, 0, 1), 0); /* under 25 % */
    assert_int_equal(leaks_of_growth(1000, 1.5, 0, 1), 1);
    assert_int_equal(leaks_of_growth(100, 0.6, 200, 1), 0);  /* it goes up and down */
    assert_int_equal(leaks_of_growth(1000, 260, 0, 100), 0); /* one step */
    assert_int_equal(leaks_of_growth(1000, -2, 0, 1), 0);
}

/* ---- stuck_process ---- */

static void test_stuck(void **state _unused_)
{
    _cleanup_world_ struct world *world = world_new(NULL, NULL);
    struct process_metric *process = world_add(world, 7, "cp");

    process->state = 'D';
    world_ticks(world, 12, 5);
    process->state = 'S';
    world_tick(world, 5);
    process->state = 'D';
    world_ticks(world, 12, 5);
    assert_int_equal(world->openings, 0);
    world_tick(world, 5);
    const struct anomaly *anomaly = world_opened(world, "stuck_process");
    assert_int_equal(anomaly->severity, SEVERITY_MEDIUM);
    assert_true(anomaly->metric_value == 60 && anomaly->threshold == 60);
    assert_string_equal(anomaly->description,
                        "cp (pid 7) has been waiting in the kernel (state D) for 1 m 00 s");
    /* 90 s, 135 s and 202.5 s are reported again. */
    world_ticks(world, 30, 5);
    assert_int_equal(world->changes, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spike_needs_ratio_and_growth),
        cmocka_unit_test(test_spike_description),
        cmocka_unit_test(test_spike_of_a_long_command_is_cut),
        cmocka_unit_test(test_spike_baseline_is_the_earliest_in_the_window),
        cmocka_unit_test(test_spike_forgets_what_is_outside_the_window),
        cmocka_unit_test(test_spike_over_a_gap_is_compared_with_the_last_snapshot),
        cmocka_unit_test(test_spike_at_short_intervals),
        cmocka_unit_test(test_spike_by_unknown_memory_is_none),
        cmocka_unit_test(test_a_start_is_no_spike),
        cmocka_unit_test(test_a_start_is_not_over_while_it_computes),
        cmocka_unit_test(test_a_start_is_over_when_memory_is_stable),
        cmocka_unit_test(test_a_start_is_not_over_before),
        cmocka_unit_test(test_a_start_is_over_after_a_window),
        cmocka_unit_test(test_a_new_program_starts_again),
        cmocka_unit_test(test_runaway_lasts_for_the_duration),
        cmocka_unit_test(test_runaway_is_low_in_a_job),
        cmocka_unit_test(test_runaway_is_broken),
        cmocka_unit_test(test_zombies_below_sonde),
        cmocka_unit_test(test_zombie_needs_two_snapshots),
        cmocka_unit_test(test_zombies_of_a_job_are_one_episode),
        cmocka_unit_test(test_a_ring_of_parents_ends),
        cmocka_unit_test(test_fds),
        cmocka_unit_test(test_fds_description),
        cmocka_unit_test(test_memory_pressure),
        cmocka_unit_test(test_memory_pressure_of_an_unknown_machine_is_none),
        cmocka_unit_test(test_oom_kill),
        cmocka_unit_test(test_oom_kill_that_is_reported_late),
        cmocka_unit_test(test_oom_kill_without_an_owner_shows_no_command),
        cmocka_unit_test(test_anomaly_of_a_job_belongs_to_its_owner),
        cmocka_unit_test(test_oom_kills_of_a_job_are_one_episode),
        cmocka_unit_test(test_leak_needs_ten_minutes),
        cmocka_unit_test(test_leak_is_found_at_short_intervals),
        cmocka_unit_test(test_leak_needs_growth),
        cmocka_unit_test(test_stuck),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
