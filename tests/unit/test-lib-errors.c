/* The error texts of libsonde when a process cannot be monitored. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/macros.h"
#include "lib/errors.h"

static void test_each_error_names_its_cause(void **state _unused_)
{
    static const struct {
        int error;
        const char *expected;
    } cases[] = {
        {-ESRCH, "pid 42: no such process"},
        {-EXDEV, "/proc is not mounted"},
        {-EOPNOTSUPP, "CONFIG_PROC_CHILDREN"},
        {-EMFILE, "pid 42: cannot be read, because this program has too many files open"},
        {-ENFILE, "pid 42: cannot be read, because the system has too many files open"},
        {-EACCES, "pid 42: permission denied"},
        {-EPERM, "pid 42: permission denied"},
        {-EAGAIN, "ulimit -u"},
        {-ENOMEM, "out of memory"},
        {-EIO, "pid 42: Input/output error"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct sonde_error error = {{0}};
        assert_int_equal(error_explain(&error, cases[i].error, 42), cases[i].error);
        if (strncmp(error.text, cases[i].expected, strlen(cases[i].expected)) != 0 &&
            !strstr(error.text, cases[i].expected))
            fail_msg("%d: '%s'", cases[i].error, error.text);
    }
}

static void test_long_text_is_cut(void **state _unused_)
{
    struct sonde_error error;
    char words[2 * sizeof(error.text)];

    memset(words, 'x', sizeof(words));
    words[sizeof(words) - 1] = '\0';
    assert_int_equal(error_set(&error, -EINVAL, "%s", words), -EINVAL);
    assert_int_equal(strlen(error.text), sizeof(error.text) - 1);
}

static void test_caller_may_want_no_text(void **state _unused_)
{
    assert_int_equal(error_set(NULL, -EINVAL, "%s", "x"), -EINVAL);
    assert_int_equal(error_explain(NULL, -ESRCH, 42), -ESRCH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_error_names_its_cause),
        cmocka_unit_test(test_long_text_is_cut),
        cmocka_unit_test(test_caller_may_want_no_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
