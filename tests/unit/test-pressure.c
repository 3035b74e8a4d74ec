/* Pressure and admission at their boundaries. */
#include "unit.h"

#include <math.h>
#include <string.h>

#include "base/macros.h"
#include "detect/pressure.h"
#include "detect/rate-limit.h"

static const struct pressure_limits limits = {.max_memory_mb = 8000, .max_processes = 50};

static struct pressure_input calm(void)
{
    return (struct pressure_input){.unique_mb = 100, .processes = 3, .psi_memory_full_avg10 = 0};
}

static void test_levels_of_memory(void **state _unused_)
{
    static const struct {
        double mb;
        enum pressure level;
    } cases[] = {
        {0, PRESSURE_NONE},        {4000, PRESSURE_NONE},     {4000.1, PRESSURE_LOW},
        {5600, PRESSURE_LOW},      {5600.1, PRESSURE_MEDIUM}, {6800, PRESSURE_MEDIUM},
        {6800.1, PRESSURE_HIGH},   {7600, PRESSURE_HIGH},     {7600.1, PRESSURE_CRITICAL},
        {9000, PRESSURE_CRITICAL},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct pressure_input input = calm();
        input.unique_mb = cases[i].mb;
        assert_int_equal(pressure_level(&limits, &input), cases[i].level);
    }
}

static void test_levels_of_processes(void **state _unused_)
{
    struct pressure_input input = calm();

    input.processes = 40;
    assert_int_equal(pressure_level(&limits, &input), PRESSURE_NONE);
    input.processes = 41;
    assert_int_equal(pressure_level(&limits, &input), PRESSURE_CRITICAL);
}

static void test_psi_raises_and_never_lowers(void **state _unused_)
{
    static const struct {
        double psi, mb;
        enum pressure level;
    } cases[] = {
        {REAL_UNKNOWN, 100, PRESSURE_NONE},
        {9.99, 100, PRESSURE_NONE},
        {10, 100, PRESSURE_MEDIUM},
        {24.99, 100, PRESSURE_MEDIUM},
        {25, 100, PRESSURE_HIGH},
        {49.99, 100, PRESSURE_HIGH},
        {50, 100, PRESSURE_CRITICAL},
        {0, 7000, PRESSURE_HIGH},
        {10, 7000, PRESSURE_HIGH},
        {25, 5000, PRESSURE_HIGH},
        {REAL_UNKNOWN, 7700, PRESSURE_CRITICAL},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct pressure_input input = calm();
        input.psi_memory_full_avg10 = cases[i].psi;
        input.unique_mb = cases[i].mb;
        assert_int_equal(pressure_level(&limits, &input), cases[i].level);
    }
}

static void test_a_rate_limit_is_at_least_high(void **state _unused_)
{
    struct pressure_input input = calm();
    struct admission admission;

    input.rate_limited_seconds = 45;
    input.rate_limit_name = "api\x1b[2J";
    assert_int_equal(pressure_level(&limits, &input), PRESSURE_HIGH);
    pressure_can_start_sheet(&limits, &input, &admission);
    assert_true(admission.allowed);
    assert_true(admission.delay_seconds == 30);
    assert_string_equal(admission.reason,
                        "the rate limit of api\\x1b[2J applies for another 45.00 s");
    input.unique_mb = 7700;
    assert_int_equal(pressure_level(&limits, &input), PRESSURE_CRITICAL);
    input.rate_limited_seconds = 0;
    input.unique_mb = 100;
    assert_int_equal(pressure_level(&limits, &input), PRESSURE_NONE);
}

static void test_a_failed_probe_is_critical(void **state _unused_)
{
    struct pressure_input input = calm();
    struct admission admission;

    input.has_failed = true;
    assert_int_equal(pressure_level(&limits, &input), PRESSURE_CRITICAL);
    pressure_can_start_sheet(&limits, &input, &admission);
    assert_false(admission.allowed);
    assert_has(admission.reason, "could not be read");
    pressure_should_accept_job(&limits, &input, NULL, &admission);
    assert_false(admission.allowed);
    assert_int_equal(admission.level, PRESSURE_CRITICAL);

    input = calm();
    input.unique_mb = REAL_UNKNOWN;
    assert_int_equal(pressure_level(&limits, &input), PRESSURE_CRITICAL);
    input = calm();
    input.processes = INT_UNKNOWN;
    assert_int_equal(pressure_level(&limits, &input), PRESSURE_CRITICAL);
}

static void test_an_unknown_limit_is_a_failed_probe(void **state _unused_)
{
    const struct pressure_input input = calm();
    struct pressure_limits unknown = limits;
    struct admission admission;

    unknown.max_memory_mb = REAL_UNKNOWN;
    pressure_should_accept_job(&unknown, &input, NULL, &admission);
    assert_false(admission.allowed);
    assert_has(admission.reason, "limits.max_memory_mb");
    unknown = limits;
    unknown.max_processes = INT_UNKNOWN;
    pressure_should_accept_job(&unknown, &input, NULL, &admission);
    assert_false(admission.allowed);
    assert_has(admission.reason, "limits.max_processes");
}

static void test_steps_are_delayed(void **state _unused_)
{
    static const struct {
        double mb, delay;
        bool allowed;
    } cases[] = {
        {100, 0, true}, {4500, 2, true}, {6000, 10, true}, {7000, 30, true}, {7700, 60, false}};

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct pressure_input input = calm();
        struct admission admission;

        input.unique_mb = cases[i].mb;
        pressure_can_start_sheet(&limits, &input, &admission);
        assert_true(admission.allowed == cases[i].allowed);
        assert_true(admission.delay_seconds == cases[i].delay);
        assert_int_equal(admission.level, pressure_level(&limits, &input));
        assert_true((admission.reason[0] == '\0') == (i == 0));
    }
}

static void test_job_is_denied(void **state _unused_)
{
    static const struct {
        double mb;
        int64_t processes;
        double psi, rate;
        bool allowed;
        const char *reason;
    } cases[] = {
        {100, 3, 0, 0, true, ""},
        {6800, 3, 0, 0, true, "jobs use 6.64 GB of 7.81 GB of memory"},
        {6800.1, 3, 0, 0, false, "jobs use 6.64 GB of 7.81 GB of memory"},
        {100, 40, 0, 0, true, ""},
        {100, 41, 0, 0, false, "jobs have 41 of 50 processes"},
        {100, 3, 0, 60, true, "a rate limit applies for another 1 m 00 s"},
        {100, 3, 80, 0, true, "all tasks wait for memory 80 % of the time"},
        {7000, 3, 80, 60, false, "jobs use 6.84 GB of 7.81 GB of memory"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct pressure_input input = {.unique_mb = cases[i].mb,
                                       .processes = cases[i].processes,
                                       .psi_memory_full_avg10 = cases[i].psi,
                                       .rate_limited_seconds = cases[i].rate};
        struct admission admission;

        pressure_should_accept_job(&limits, &input, NULL, &admission);
        assert_true(admission.allowed == cases[i].allowed);
        assert_string_equal(admission.reason, cases[i].reason);
        if (cases[i].allowed)
            assert_true(admission.delay_seconds == 0);
        else
            assert_true(admission.delay_seconds >= 10);
    }
}

static void test_job_that_does_not_fit_is_denied(void **state _unused_)
{
    static const struct {
        double p95, confidence, used;
        bool allowed;
    } cases[] = {
        {5000, 0.9, 3000, true},       {5000.1, 0.9, 3000, false}, {5000.1, 0.5, 3000, false},
        {5000.1, 0.49, 3000, true},    {9000, 0.9, 0, false},      {REAL_UNKNOWN, 0.9, 3000, true},
        {9000, REAL_UNKNOWN, 0, true},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct resource_estimate estimate;
        struct pressure_input input = calm();
        struct admission admission;

        record_init(&resource_estimate_record, &estimate);
        estimate.estimated_peak_memory_mb = cases[i].p95;
        estimate.confidence = cases[i].confidence;
        input.unique_mb = cases[i].used;
        pressure_should_accept_job(&limits, &input, &estimate, &admission);
        assert_true(admission.allowed == cases[i].allowed);
        if (!admission.allowed && cases[i].used == 3000) {
            assert_string_equal(admission.reason, "jobs of its type need up to 4.88 GB of memory, "
                                                  "and 4.88 GB of 7.81 GB are free");
            assert_int_equal(admission.level, PRESSURE_NONE);
            assert_true(admission.delay_seconds == 10);
        }
    }
}

static void test_limits(void **state _unused_)
{
    const struct limits_config both = {.max_memory_mb = 8192, .max_processes = 50};
    const struct limits_config none = {.max_memory_mb = REAL_UNKNOWN, .max_processes = INT_UNKNOWN};

    struct pressure_limits found = pressure_limits_resolve(&both, 1000, 100);
    assert_true(found.max_memory_mb == 8192);
    assert_int_equal(found.max_processes, 50);
    found = pressure_limits_resolve(&none, 1000, 101);
    assert_true(found.max_memory_mb == 800);
    assert_int_equal(found.max_processes, 80);
    found = pressure_limits_resolve(&none, REAL_UNKNOWN, INT_UNKNOWN);
    assert_false(real_is_known(found.max_memory_mb));
    assert_false(int_is_known(found.max_processes));
}

static void test_input_of_a_snapshot(void **state _unused_)
{
    static const char *const jobs[] = {"a", "a", "b", NULL, "b", "b"};
    struct process_metric processes[ARRAY_SIZE(jobs)];
    struct snapshot snapshot;

    record_init(&snapshot_record, &snapshot);
    for (size_t i = 0; i < ARRAY_SIZE(jobs); i++) {
        record_init(&process_metric_record, &processes[i]);
        processes[i].job_id = jobs[i];
    }
    snapshot.processes = (struct process_list){.items = processes, .count = ARRAY_SIZE(processes)};
    snapshot.psi.memory.full_avg10 = 7;
    snapshot.jobs_unique_mb = 380;
    struct pressure_input input = pressure_input_of(&snapshot);
    assert_false(input.has_failed);
    assert_int_equal(input.processes, 5);
    assert_true(input.unique_mb == 380);
    assert_true(input.psi_memory_full_avg10 == 7);
    assert_true(pressure_input_of(NULL).has_failed);
}

static void test_names(void **state _unused_)
{
    assert_string_equal(pressure_name(PRESSURE_NONE), "none");
    assert_string_equal(pressure_name(PRESSURE_CRITICAL), "critical");
    assert_null(pressure_name(PRESSURE_UNKNOWN));
}

/* ---- rate limits ---- */

static void test_rate_limits_hold_for_whom_they_are_reported(void **state _unused_)
{
    struct rate_limits reported = {.count = 0};

    assert_null(rate_limits_find(&reported, 1000, 5));
    rate_limits_set(&reported, 1000, "api", 100, 5);
    assert_string_equal(rate_limits_find(&reported, 1000, 99)->name, "api");
    assert_null(rate_limits_find(&reported, 1001, 5));
    assert_null(rate_limits_find(&reported, INT_UNKNOWN, 5));
    assert_null(rate_limits_find(&reported, 1000, 100)); /* over */
    rate_limits_set(&reported, INT_UNKNOWN, "disk", 50, 5);
    assert_string_equal(rate_limits_find(&reported, 1001, 5)->name, "disk");
    assert_string_equal(rate_limits_find(&reported, INT_UNKNOWN, 5)->name, "disk");
    assert_string_equal(rate_limits_find(&reported, 1000, 5)->name, "api"); /* the longer one */
}

static void test_rate_limits_are_taken_back_by_their_name(void **state _unused_)
{
    struct rate_limits reported = {.count = 0};

    rate_limits_set(&reported, 1000, "api", 1000, 5);
    rate_limits_set(&reported, 1001, "api", 900, 5);
    rate_limits_set(&reported, 1000, "api", 6, 5);
    assert_int_equal(reported.count, 2);
    assert_null(rate_limits_find(&reported, 1000, 7));
    assert_int_equal(rate_limits_find(&reported, 1001, 7)->until_ns, 900);
}

static void test_rate_limits_are_bounded(void **state _unused_)
{
    struct rate_limits reported = {.count = 0};
    char name[16];

    for (uint64_t i = 0; i < 3 * RATE_LIMITS_MAX; i++) {
        snprintf(name, sizeof(name), "n%d", (int)i);
        rate_limits_set(&reported, 1000, name, 1000 + i, 5);
    }
    assert_int_equal(reported.count, RATE_LIMITS_MAX);
    assert_int_equal(rate_limits_find(&reported, 1000, 5)->until_ns,
                     1000 + 3 * RATE_LIMITS_MAX - 1);
    rate_limits_set(&reported, 1000, "late", 5000, 2000); /* those that are over make room */
    assert_int_equal(reported.count, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rate_limits_hold_for_whom_they_are_reported),
        cmocka_unit_test(test_rate_limits_are_taken_back_by_their_name),
        cmocka_unit_test(test_rate_limits_are_bounded),
        cmocka_unit_test(test_levels_of_memory),
        cmocka_unit_test(test_levels_of_processes),
        cmocka_unit_test(test_psi_raises_and_never_lowers),
        cmocka_unit_test(test_a_rate_limit_is_at_least_high),
        cmocka_unit_test(test_a_failed_probe_is_critical),
        cmocka_unit_test(test_an_unknown_limit_is_a_failed_probe),
        cmocka_unit_test(test_steps_are_delayed),
        cmocka_unit_test(test_job_is_denied),
        cmocka_unit_test(test_job_that_does_not_fit_is_denied),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_input_of_a_snapshot),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
