/* What stands for the kernel collector in a build without it: it cannot be opened, and says why. */
#include "unit.h"

#include <errno.h>

#include "base/macros.h"
#include "probe/bpf/kernel-probe.h"

static void test_says_why(void **state _unused_)
{
    struct kernel_probe *probe = NULL;
    struct kernel_refusal refusal = {.words = ""};

    assert_false(kernel_probe_is_allowed(&refusal));
    assert_string_equal(refusal.words, "sonde was built without it");
    refusal.words[0] = '\0';
    assert_int_equal(kernel_probe_open(&(struct kernel_probe_options){0}, &probe, &refusal),
                     -EOPNOTSUPP);
    assert_string_equal(refusal.words, "sonde was built without it");
    assert_null(probe);
    kernel_probe_close(probe);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_says_why)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
