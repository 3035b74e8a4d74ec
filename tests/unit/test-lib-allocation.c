/* Every allocation of libsonde fails once, and then all from it on: an error is returned, nothing
 * crashes or leaks (under ASan), and the next attempt works. While it samples, libsonde allocates
 * nothing. Linked with -Wl,--wrap for the allocators. */
#include "unit.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "base/macros.h"
#include "failing-allocator.h"
#include "lib-world.h"
#include "lib/target.h"

/* Calls every function in one thread; the interval is so long that the sampler's thread takes no
 * sample. */
static int use_monitor(void)
{
    struct sonde_options options = SONDE_OPTIONS_INIT;
    struct sonde_monitor *monitor = NULL;
    struct sonde_summary summary = {.peak_rss_mb = 1}, again;
    struct sonde_sample *samples = NULL;
    struct sonde_phase *phases = NULL;
    struct sonde_error error;
    char *json = NULL;
    size_t count;

    options.interval_sec = 3600;
    options.flags = SONDE_DESCENDANTS;
    int r = sonde_monitor_new(&options, &monitor, &error);
    if (r == 0)
        r = sonde_monitor_start(monitor, &error);
    if (r == 0)
        r = sonde_monitor_mark(monitor, "phase", &error);
    if (r == 0)
        r = sonde_monitor_samples(monitor, &samples, &count);
    if (r == 0)
        r = sonde_monitor_phases(monitor, &phases, &count);
    if (r == 0)
        r = sonde_summary_to_json(&summary, &json);
    if (r == 0)
        r = sonde_summary_from_json(json, strlen(json), &again, &error);
    sonde_free(json);
    sonde_free(samples);
    sonde_free(phases);
    sonde_monitor_free(monitor);
    return r;
}

/* And the next attempt works. */
static int use_twice(void)
{
    int r = use_monitor();

    is_failing = false;
    assert_int_equal(use_monitor(), 0);
    return r;
}

/* Failures inside jansson, and failures that the next reading repairs, are no error. */
static void test_each_allocation_fails(void **state _unused_)
{
    assert_true(fail_each_allocation(use_twice, false, 8) >= 8);
    assert_true(fail_each_allocation(use_twice, true, 8) >= 8);
}

/* ---- no allocation while sampling ---- */

static struct sonde_monitor *start_fast(unsigned flags)
{
    struct sonde_options options = SONDE_OPTIONS_INIT;

    options.interval_sec = 0.001;
    options.max_samples = 64; /* the samples are thinned out many times */
    options.flags = flags;
    struct sonde_monitor *monitor = new_monitor(&options);
    assert_int_equal(sonde_monitor_start(monitor, NULL), 0);
    return monitor;
}

/* The allocations of all threads while this many samples are taken; this thread makes none. */
static long allocations_during(struct sonde_monitor *monitor, int64_t samples)
{
    const long many = 1000000;
    int64_t until = summary_of(monitor).num_samples + samples;

    countdown = many;
    fails_for_good = false;
    is_failing = true;
    AWAIT(summary_of(monitor).num_samples > until);
    is_failing = false;
    return many - countdown;
}

static void test_no_allocation_while_sampling(void **state _unused_)
{
    static const unsigned flags[] = {0, SONDE_DESCENDANTS};
    pid_t children[3];

    for (size_t i = 0; i < ARRAY_SIZE(children); i++) {
        children[i] = fork();
        if (children[i] == 0) {
            pause();
            _exit(0);
        }
    }
    for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
        struct sonde_monitor *monitor = start_fast(flags[i]);
        AWAIT(summary_of(monitor).num_samples > 5);
        assert_int_equal(allocations_during(monitor, 300), 0);
        sonde_monitor_free(monitor);
    }
    for (size_t i = 0; i < ARRAY_SIZE(children); i++) {
        kill(children[i], SIGKILL);
        waitpid(children[i], NULL, 0);
    }
}

/* A child without memory for it is found at a later reading. */
static void test_child_without_memory(void **state _unused_)
{
    struct target *target = NULL;
    struct target_reading reading;
    pid_t child = fork();

    if (child == 0) {
        take_memory(32 * MB);
        pause();
        _exit(0);
    }
    is_failing = false;
    assert_int_equal(target_new(getpid(), true, &target), 0);
    assert_int_equal(target_read(target, true, &reading), 0);
    pid_t second = fork();
    if (second == 0) {
        take_memory(64 * MB);
        pause();
        _exit(0);
    }
    is_failing = fails_for_good = true;
    countdown = 1;
    assert_int_equal(target_read(target, true, &reading), 0);
    assert_true(reading.rss_bytes < (int64_t)(64 * MB));
    is_failing = false;
    do
        assert_int_equal(target_read(target, true, &reading), 0);
    while (reading.rss_bytes < (int64_t)(96 * MB));
    target_free(target);
    kill(child, SIGKILL);
    kill(second, SIGKILL);
    waitpid(child, NULL, 0);
    waitpid(second, NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_allocation_fails),
        cmocka_unit_test(test_no_allocation_while_sampling),
        cmocka_unit_test(test_child_without_memory),
    };
    return cmocka_run_group_tests_name("lib-allocation", tests, NULL, NULL);
}
