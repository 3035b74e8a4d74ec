/* Which programs are shells, and which exist to run others. */
#include "unit.h"

#include "base/macros.h"
#include "explain/program-kind.h"

static void test_runners(void **state _unused_)
{
    static const char *const runners[] = {
        "make -j 8",
        "/usr/bin/ninja",
        "cc -c a.c",
        "gcc-13 -O2 a.c",
        "clang++-17.0.6 a.cc",
        "xargs -n1 false",
        "timeout 5 ./work",
        "[make]",
        "x86_64-linux-gnu-gcc a.c",
        "arm-none-eabi-g++-12 a.cc",
    };
    static const char *const others[] = {"python3 a.py", "sh -c make", "./make-it-so", "grep -q x"};

    for (size_t i = 0; i < ARRAY_SIZE(runners); i++)
        if (!program_is_runner(runners[i]))
            fail_msg("%s is a runner", runners[i]);
    for (size_t i = 0; i < ARRAY_SIZE(others); i++)
        if (program_is_runner(others[i]))
            fail_msg("%s is no runner", others[i]);
    assert_false(program_is_runner(NULL));
}

static void test_shells(void **state _unused_)
{
    static const char *const shells[] = {"sh -c true", "/bin/bash script", "-zsh", "busybox sh",
                                         "[script]"};
    static const char *const others[] = {"make", "[make]", "python3 a.py", "ssh host"};

    for (size_t i = 0; i < ARRAY_SIZE(shells); i++)
        if (!program_is_shell(shells[i]))
            fail_msg("%s is a shell", shells[i]);
    for (size_t i = 0; i < ARRAY_SIZE(others); i++)
        if (program_is_shell(others[i]))
            fail_msg("%s is no shell", others[i]);
    assert_true(program_is_shell(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runners),
        cmocka_unit_test(test_shells),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
