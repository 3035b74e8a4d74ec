/* Included by every unit test: cmocka with the headers that it needs, and small helpers. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* */
#include <cmocka.h>

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* An argument of a test program selects the tests whose names contain it. */
__attribute__((constructor)) static void select_tests(int argc, char **argv)
{
    static char pattern[128];

    if (argc < 2)
        return;
    snprintf(pattern, sizeof(pattern), "*%s*", argv[1]);
    cmocka_set_test_filter(pattern);
}

/* `value` is within `slack` of `wanted`. */
static inline void assert_near(double value, double wanted, double slack)
{
    if (value != wanted && !(fabs(value - wanted) <= slack))
        fail_msg("%.15g is not within %g of %.15g", value, slack, wanted);
}

/* The same with a relative slack. */
static inline void assert_close(double value, double wanted, double ratio)
{
    assert_near(value, wanted, ratio * fabs(wanted));
}

/* CPU seconds of this process. Tests of complexity use it with a bound far above the expected
 * value; unlike wall time, it does not depend on other load of the machine. */
static inline double cpu_seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static inline void assert_has(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("\"%s\" has no \"%s\"", text, part);
}

/* NULL equals only NULL. */
static inline bool is_same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* For cmocka: *state is the path of an empty directory, which is removed with its content. */
static inline int make_directory(void **state)
{
    char *path = strdup("/tmp/sonde-unit.XXXXXX");

    *state = path ? mkdtemp(path) : NULL;
    return *state ? 0 : -1;
}

static inline int remove_directory(void **state)
{
    char command[PATH_MAX];

    snprintf(command, sizeof(command), "rm -rf '%s'", (char *)*state);
    free(*state);
    return system(command);
}
