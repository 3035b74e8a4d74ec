/* Admission without a daemon: by the free memory of the machine. */
#include "unit.h"

#include "base/macros.h"
#include "detect/admission-constants.h"
#include "detect/admission.h"

#define TOTAL_MB 1000.0

static struct snapshot *snapshot;
static struct admission admission;

static int set_up(void **state _unused_)
{
    snapshot = snapshot_new();
    if (!snapshot)
        return -1;
    snapshot->system_memory_total_mb = TOTAL_MB;
    snapshot->system_memory_available_mb = 500;
    snapshot->psi.memory.full_avg10 = 0;
    return 0;
}

static int tear_down(void **state _unused_)
{
    snapshot_free(snapshot);
    return 0;
}

static void assert_refused(enum pressure level, double delay_seconds, const char *reason)
{
    assert_false(admission.allowed);
    assert_int_equal(admission.level, level);
    assert_near(admission.delay_seconds, delay_seconds, 0);
    assert_has(admission.reason, reason);
}

static void test_free_memory_admits(void **state _unused_)
{
    admission_without_daemon(snapshot, NULL, &admission);
    assert_true(admission.allowed);
    assert_int_equal(admission.level, PRESSURE_NONE);
    assert_near(admission.delay_seconds, 0, 0);
    assert_has(admission.reason, "no daemon");
}

static void test_unknown_memory_refuses(void **state _unused_)
{
    admission_without_daemon(NULL, NULL, &admission);
    assert_refused(PRESSURE_CRITICAL, 60, "could not be read");
    snapshot->system_memory_available_mb = REAL_UNKNOWN;
    admission_without_daemon(snapshot, NULL, &admission);
    assert_refused(PRESSURE_CRITICAL, 60, "could not be read");
}

static void test_little_free_memory_refuses(void **state _unused_)
{
    snapshot->system_memory_available_mb = 150;
    admission_without_daemon(snapshot, NULL, &admission);
    assert_true(admission.allowed);
    snapshot->system_memory_available_mb = 149;
    admission_without_daemon(snapshot, NULL, &admission);
    assert_refused(PRESSURE_HIGH, 30, "memory");
    snapshot->system_memory_available_mb = 49;
    admission_without_daemon(snapshot, NULL, &admission);
    assert_refused(PRESSURE_CRITICAL, 60, "memory");
}

static void test_memory_stalls_refuse(void **state _unused_)
{
    snapshot->psi.memory.full_avg10 = 49;
    admission_without_daemon(snapshot, NULL, &admission);
    assert_true(admission.allowed);
    snapshot->psi.memory.full_avg10 = 50;
    admission_without_daemon(snapshot, NULL, &admission);
    assert_refused(PRESSURE_CRITICAL, 60, "50 %");
    snapshot->psi.memory.full_avg10 = REAL_UNKNOWN; /* a kernel without PSI */
    admission_without_daemon(snapshot, NULL, &admission);
    assert_true(admission.allowed);
}

static void test_an_estimate_that_does_not_fit_refuses(void **state _unused_)
{
    struct resource_estimate estimate = {.estimated_peak_memory_mb = 501, .confidence = 0.5};

    admission_without_daemon(snapshot, &estimate, &admission);
    assert_refused(PRESSURE_NONE, 10, "501");
    estimate.estimated_peak_memory_mb = 500;
    admission_without_daemon(snapshot, &estimate, &admission);
    assert_true(admission.allowed);
    estimate.estimated_peak_memory_mb = 900;
    estimate.confidence = 0.49;
    admission_without_daemon(snapshot, &estimate, &admission);
    assert_true(admission.allowed);
}

static void test_only_confident_estimates_are_used(void **state _unused_)
{
    assert_true(admission_uses_estimate(&(struct resource_estimate){.confidence = 0.5}));
    assert_false(admission_uses_estimate(&(struct resource_estimate){.confidence = 0.499}));
    assert_false(admission_uses_estimate(&(struct resource_estimate){.confidence = REAL_UNKNOWN}));
}

/* The documentation contains the thresholds. */
static void test_markdown(void **state _unused_)
{
    _cleanup_text_ struct text levels = {0}, with = {0}, without = {0};

    pressure_markdown(&levels);
    assert_non_null(strstr(text_string(&levels), "| measure | low | medium | high | critical |\n"));
    assert_non_null(strstr(text_string(&levels), "| > 0.50 | > 0.70 | > 0.85 | > 0.95 |\n"));
    assert_non_null(strstr(text_string(&levels), "| | ≥ 10 | ≥ 25 | ≥ 50 |\n"));
    assert_non_null(
        strstr(text_string(&levels), "(10 s without pressure) | 10 s | 10 s | 30 s | 60 s |\n"));
    admission_with_daemon_list(&with);
    assert_non_null(strstr(text_string(&with), "more than 85 % of limits.max_memory_mb.\n"));
    assert_non_null(strstr(text_string(&with), "its confidence is 0.5 or more.\n"));
    admission_without_daemon_list(&without);
    assert_non_null(strstr(text_string(&without), "Less than 15 % of the memory is available. "
                                                  "Below 5 %"));
    assert_non_null(strstr(text_string(&without), "for 50 % of the time or more"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_free_memory_admits),
        TEST(test_unknown_memory_refuses),
        TEST(test_little_free_memory_refuses),
        TEST(test_memory_stalls_refuse),
        TEST(test_an_estimate_that_does_not_fit_refuses),
        TEST(test_only_confident_estimates_are_used),
        TEST(test_markdown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
