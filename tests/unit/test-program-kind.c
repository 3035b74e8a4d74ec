/* Kinds of programs, and the conventions of their exit statuses. */
#include "unit.h"

#include <signal.h>

#include "base/macros.h"
#include "explain/program-kind.h"

static void test_kinds(void **state _unused_)
{
    static const struct {
        const char *command;
        int64_t status;
        enum program_kind kind;
    } cases[] = {
        {"make -j 8", 2, PROGRAM_RUNNER},
        {"make", 1, PROGRAM_OTHER}, /* make -q */
        {"[make]", 2, PROGRAM_RUNNER},
        {"/usr/bin/ninja", 1, PROGRAM_RUNNER},
        {"cc -c a.c", 1, PROGRAM_RUNNER},
        {"gcc-13 -O2 a.c", 1, PROGRAM_RUNNER},
        {"clang++-17.0.6 a.cc", 1, PROGRAM_RUNNER},
        {"x86_64-linux-gnu-gcc a.c", 1, PROGRAM_RUNNER},
        {"arm-none-eabi-g++-12 a.cc", 1, PROGRAM_RUNNER},
        {"/usr/lib/gcc/collect2 -o a", 1, PROGRAM_RUNNER},
        {"xargs -n1 false", 123, PROGRAM_RUNNER},
        {"timeout 5 ./work", 124, PROGRAM_RUNNER},
        {"timeout 5 ./work", 3, PROGRAM_WRAPPER},
        {"cmake --build build", 2, PROGRAM_WRAPPER},
        {"cmake -B build", 1, PROGRAM_TESTER},
        {"perl /usr/bin/parallel exit", 2, PROGRAM_COUNTER},
        {"perl /usr/bin/parallel --halt now,fail=1 exit", 3, PROGRAM_WRAPPER},
        {"node /usr/bin/npm run build", 1, PROGRAM_WRAPPER},
        {"npm run build", 1, PROGRAM_WRAPPER},
        {"ctest -j4", 8, PROGRAM_TESTER},
        {"cargo build", 101, PROGRAM_RUNNER},
        {"sudo -u build make", 2, PROGRAM_WRAPPER},
        {"python3.11 -m pytest tests", 1, PROGRAM_TESTER},
        {"/usr/bin/python3 -B /usr/bin/pytest -x", 1, PROGRAM_TESTER},
        {"python3 -c import pytest", 1, PROGRAM_OTHER},
        {"python3 a.py", 1, PROGRAM_OTHER},
        {"./make-it-so", 2, PROGRAM_OTHER},
        {"grep -q x", 1, PROGRAM_OTHER},
        {"ssh host", 255, PROGRAM_OTHER},
        {"maker", 2, PROGRAM_OTHER},
        {"gcc-ar-13", 1, PROGRAM_OTHER},
        {"a-", 1, PROGRAM_OTHER},
        {"-13", 1, PROGRAM_OTHER},
        {"sh -c make", 2, PROGRAM_SHELL},
        {"/bin/bash script", 1, PROGRAM_SHELL},
        {"-zsh", 1, PROGRAM_SHELL},
        {"busybox sh", 1, PROGRAM_SHELL},
        {"[build]", 1, PROGRAM_SHELL},
        {NULL, 1, PROGRAM_SHELL},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        if (program_kind(cases[i].command, cases[i].status) != cases[i].kind)
            fail_msg("%s is of kind %d", cases[i].command,
                     program_kind(cases[i].command, cases[i].status));
}

static void test_names_in_scripts(void **state _unused_)
{
    static const struct {
        const char *command, *name;
    } cases[] = {
        {"/bin/ls /nope", "ls"},
        {"/bin/sh ./work", "work"},
        {"sh -c x; y", "sh"},
        {"/usr/bin/python3 a.py", "a.py"},
        {"python3.11 -B -m pytest", "pytest"},
        {"gcc-13 x", "gcc-13"},
        {"[work]", "work"},
        {NULL, NULL},
        {"bash -e build.sh", "build.sh"},
        {"python3", "python3"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char name[PROGRAM_MAX_BYTES + 1];
        assert_int_equal(program_or_script(cases[i].command, name), cases[i].name != NULL);
        if (cases[i].name)
            assert_string_equal(name, cases[i].name);
    }
}

static struct process_event ended(int64_t exit_code, int64_t signal_num)
{
    struct process_event event;

    record_init(&process_event_record, &event);
    event.event_type = int_is_known(signal_num) ? EVENT_KILL : EVENT_EXIT;
    event.exit_code = exit_code;
    event.signal_num = signal_num;
    return event;
}

static void test_status_of_xargs(void **state _unused_)
{
    static const struct {
        int64_t status, exit_code, signal_num;
        bool is_explained;
    } cases[] = {
        {123, 1, INT_UNKNOWN, true},        {123, 125, INT_UNKNOWN, true},
        {123, 255, INT_UNKNOWN, false},     {124, 255, INT_UNKNOWN, true},
        {124, 1, INT_UNKNOWN, false},       {125, INT_UNKNOWN, SIGSEGV, true},
        {123, INT_UNKNOWN, SIGSEGV, false}, {125, 1, INT_UNKNOWN, false},
        {127, 127, INT_UNKNOWN, true},      {1, 3, INT_UNKNOWN, false},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct process_event child = ended(cases[i].exit_code, cases[i].signal_num);
        if (program_explains("xargs -n1 work", cases[i].status, &child) != cases[i].is_explained)
            fail_msg("case %zu", i);
    }
    assert_true(program_is_shell("/bin/sh -c x"));
    assert_true(program_is_shell("-zsh"));
    assert_false(program_is_shell("ssh -c x"));
    assert_false(program_is_shell(NULL));
    struct process_event child = ended(1, INT_UNKNOWN);
    assert_false(program_explains(NULL, 1, &child));
    assert_false(program_explains("sh -c work", 1, &child));
}

static void test_programs_that_keep_going(void **state _unused_)
{
    static const char *const keep_going[] = {"make -k",  "make -j4 -k all",   "make -kj4",
                                             "make -Bk", "make --keep-going", "ninja -k 0",
                                             "ninja -k0"};
    static const char *const others[] = {
        "make",  "make -fMakefile.k", "make kernel", "make -C k", "ninja", "cc -k", "sh -k",
        "[make]"};

    for (size_t i = 0; i < ARRAY_SIZE(keep_going); i++)
        if (!program_keeps_going(keep_going[i], 2))
            fail_msg("%s keeps going", keep_going[i]);
    for (size_t i = 0; i < ARRAY_SIZE(others); i++)
        if (program_keeps_going(others[i], 2))
            fail_msg("%s stops", others[i]);
    assert_true(program_keeps_going("xargs false", 123));
    assert_true(program_has_letter_k("make -k"));
    assert_false(program_has_letter_k("ninja -k 0"));
    assert_false(program_has_letter_k("sh -k"));
    assert_false(program_has_letter_k(NULL));
}

static void test_answers(void **state _unused_)
{
    static const struct {
        const char *command;
        int64_t status;
        bool may_answer;
    } cases[] = {
        {"grep -q x f", 1, true}, {"grep -q x f", 2, false}, {"/usr/bin/diff a b", 1, true},
        {NULL, 1, true},          {"ls /nope", 1, false},    {"egrep", 1, true},
        {"gre", 1, false},        {"rep", 1, false},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct process_event end = ended(cases[i].status, INT_UNKNOWN);
        end.command = cases[i].command;
        if (program_may_answer(&end) != cases[i].may_answer)
            fail_msg("%s", cases[i].command);
    }
}

static void test_known_programs(void **state _unused_)
{
    assert_true(program_is_known("/bin/sh -c x"));
    assert_true(program_is_known("python3.11 a.py"));
    assert_true(program_is_known("make -k"));
    assert_true(program_is_known("grep x f"));
    assert_false(program_is_known("./build.sh"));
    assert_false(program_is_known(""));
}

static void test_meanings(void **state _unused_)
{
    assert_string_equal(program_status_meaning("python3 -m pytest x", 1), "tests failed");
    assert_string_equal(program_status_meaning("/usr/bin/pytest-3", 5), "no tests found");
    assert_string_equal(program_status_meaning("[ssh]", 255),
                        "ssh failed, or the remote command exited 255");
    assert_null(program_status_meaning("ssh host", 1));
    assert_null(program_status_meaning("python3 a.py", 1));
    assert_null(program_status_meaning(NULL, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),           cmocka_unit_test(test_names_in_scripts),
        cmocka_unit_test(test_status_of_xargs), cmocka_unit_test(test_programs_that_keep_going),
        cmocka_unit_test(test_answers),         cmocka_unit_test(test_known_programs),
        cmocka_unit_test(test_meanings),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
