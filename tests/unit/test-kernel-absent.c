/* The replacement of the kernel collector in a build without it: opening fails with a reason. */
#include "unit.h"

#include <errno.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "config/paths.h"
#include "probe/bpf/kernel-probe.h"

static void test_refusal_has_a_reason(void **state _unused_)
{
    struct kernel_probe *probe = NULL;
    struct kernel_probe_error refusal = {.text = ""};

    assert_false(kernel_probe_is_allowed(PROC_ROOT, &refusal));
    assert_string_equal(refusal.text, "sonde was built without it");
    refusal.text[0] = '\0';
    assert_int_equal(
        kernel_probe_open(&(struct kernel_probe_options){.proc_root = PROC_ROOT}, &probe, &refusal),
        -EOPNOTSUPP);
    assert_string_equal(refusal.text, "sonde was built without it");
    assert_null(probe);
    kernel_probe_close(probe);
}

/* Callers fall back as if the kernel had refused. */
static void test_every_part_is_refused(void **state _unused_)
{
    _cleanup_(kernel_probe_closep) struct kernel_probe *probe = NULL;

    assert_false(kernel_probe_has(probe, KERNEL_PART_PROCESSES));
    assert_string_equal(kernel_probe_missing_parts(probe), "");
    assert_int_equal(kernel_probe_scan(probe, NULL, NULL, NULL, NULL), -EOPNOTSUPP);
    assert_int_equal(kernel_probe_read_pids(probe, NULL, 0, false, NULL), -EOPNOTSUPP);
    assert_int_equal(kernel_probe_fd(probe), -1);
    assert_int_equal(kernel_probe_drain(probe, NULL, NULL), -EOPNOTSUPP);
    assert_false(kernel_probe_sleep(probe));
    kernel_probe_settle(probe, 1, 0, NULL, NULL);
    assert_int_equal(kernel_probe_lost(probe), 0);
    assert_int_equal(kernel_probe_tag(probe, 1, 1), -EOPNOTSUPP);
    assert_int_equal(kernel_probe_sample_calls(probe, NULL, 0, NULL, NULL), -EOPNOTSUPP);
    assert_int_equal(kernel_probe_count_calls(probe, true), -EOPNOTSUPP);
    assert_false(kernel_probe_counts_calls(probe));
    assert_int_equal(kernel_probe_count_calls_of(probe, 1, 0), -EOPNOTSUPP);
    kernel_probe_stop_counting_calls_of(probe, 1);
    assert_int_equal(kernel_probe_read_calls(probe, NULL, NULL), -EOPNOTSUPP);
    assert_int_equal(kernel_probe_lost_calls(probe), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusal_has_a_reason),
        cmocka_unit_test(test_every_part_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
