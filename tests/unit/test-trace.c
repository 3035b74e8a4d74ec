/* The output of strace: its table in all forms, and the messages about attaching. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "trace/strace-command.h"
#include "trace/strace-output.h"
#include "trace/strace-table.h"

static struct syscall_profile profile;

static int parse(const char *text)
{
    syscall_profile_done(&profile);
    return strace_table_parse(text, strlen(text), &profile);
}

static struct syscall_sum sum_of(const char *name)
{
    unsigned call = syscall_number(name);

    for (size_t i = 0; i < profile.sums.count; i++)
        if (profile.sums.items[i].call == call)
            return profile.sums.items[i];
    return (struct syscall_sum){.call = SYSCALL_NONE};
}

static void check(const char *name, uint64_t count, uint64_t ns, uint64_t errors)
{
    struct syscall_sum sum = sum_of(name);

    assert_int_not_equal(sum.call, SYSCALL_NONE);
    assert_int_equal(sum.count, count);
    assert_int_equal(sum.ns, ns);
    assert_int_equal(sum.errors, errors);
}

static void test_table(void **state _unused_)
{
    assert_int_equal(parse("strace: Process 916 attached\n"
                           "strace: Process 917 attached\n"
                           "strace: Process 916 detached\n"
                           "% time     seconds  usecs/call     calls    errors syscall\n"
                           "------ ----------- ----------- --------- --------- ----------------\n"
                           " 50.40    0.117862          49      2358           write\n"
                           " 39.60    0.115998          49      2358       100 read\n"
                           " 10.00    1.000001           1         1         1 access\n"
                           "------ ----------- ----------- --------- --------- ----------------\n"
                           "100.00    1.233861          49      4717       101 total\n"),
                     0);
    assert_int_equal(profile.sums.count, 3);
    check("write", 2358, 117862000, 0);
    check("read", 2358, 115998000, 100);
    check("access", 1, 1000001000, 1);
}

static void test_without_errors_column(void **state _unused_)
{
    assert_int_equal(parse("% time     seconds  usecs/call     calls syscall\n"
                           "------ ----------- ----------- --------- ----------------\n"
                           "100.00    0.000049          49         1 write\n"
                           "------ ----------- ----------- --------- ----------------\n"
                           "100.00    0.000049          49         1 total\n"),
                     0);
    assert_int_equal(profile.sums.count, 1);
    check("write", 1, 49000, 0);
}

/* strace -U name,time-max,time-total,time-min,calls,errors */
static void test_other_columns(void **state _unused_)
{
    assert_int_equal(
        parse("syscall          longest     seconds    shortest     calls    errors\n"
              "---------------- ----------- ----------- ----------- --------- ---------\n"
              "openat            0.000070    0.000100    0.000010         5         2\n"
              "close             0.000002    0.000003    0.000001         2          \n"
              "---------------- ----------- ----------- ----------- --------- ---------\n"
              "total             0.000070    0.000103    0.000001         7         2\n"),
        0);
    assert_int_equal(profile.sums.count, 2);
    check("openat", 5, 100000, 2);
    check("close", 2, 3000, 0);
}

static void test_times_from_the_available_columns(void **state _unused_)
{
    assert_int_equal(parse("usecs/call     calls syscall\n"
                           "----------- --------- ----------------\n"
                           "         20         3 read\n"),
                     0);
    check("read", 3, 60000, 0);
    assert_int_equal(parse("% time     calls syscall\n"
                           "------ --------- ----------------\n"
                           " 75.00         3 read\n"
                           " 25.00         9 write\n"),
                     0);
    assert_int_equal(sum_of("read").ns, 3 * sum_of("write").ns);
}

static void test_decimal_comma(void **state _unused_)
{
    assert_int_equal(parse("% time     seconds  usecs/call     calls    errors syscall\n"
                           "------ ----------- ----------- --------- --------- ----------------\n"
                           "100,00    0,117862          49      2358           write\n"),
                     0);
    check("write", 2358, 117862000, 0);
}

/* The traced process made no calls; or strace was killed while it printed. */
static void test_empty_and_truncated_tables(void **state _unused_)
{
    assert_int_equal(parse(""), -ENODATA);
    assert_int_equal(parse("strace: Process 1 attached\n"), -ENODATA);
    assert_int_equal(parse("% time     seconds  usecs/call     calls    errors syscall\n"),
                     -ENODATA);
    assert_int_equal(parse("% time     seconds  usecs/call     calls    errors syscall\n"
                           "------ ----------- ----------- --------- --------- ----------------\n"
                           "------ ----------- ----------- --------- --------- ----------------\n"
                           "100.00    0.000000           0         0           total\n"),
                     0);
    assert_int_equal(profile.sums.count, 0);
    assert_int_equal(parse("% time     seconds  usecs/call     calls    errors syscall\n"
                           "------ ----------- ----------- --------- --------- ----------------\n"
                           " 50.40    0.117862          49      2358           write\n"
                           " 49.60    0.11"),
                     0);
    assert_int_equal(profile.sums.count, 1);
}

/* With -f several processes have called it under one name, 32-bit ones too: one line each. */
static void test_repeated_names(void **state _unused_)
{
    assert_int_equal(parse("% time     seconds  usecs/call     calls    errors syscall\n"
                           "------ ----------- ----------- --------- --------- ----------------\n"
                           " 50.00    0.000010          10         1           read\n"
                           "------ ----------- ----------- --------- --------- ----------------\n"
                           "100.00    0.000010          10         1           total\n"
                           "System call usage summary for 32 bit mode:\n"
                           "% time     seconds  usecs/call     calls    errors syscall\n"
                           "------ ----------- ----------- --------- --------- ----------------\n"
                           " 50.00    0.000010          10         1         1 read\n"
                           "------ ----------- ----------- --------- --------- ----------------\n"
                           "100.00    0.000010          10         1         1 total\n"),
                     0);
    check("read", 2, 20000, 1);
}

static void test_garbage(void **state _unused_)
{
    static const char *const header =
        "% time     seconds  usecs/call     calls    errors syscall\n"
        "------ ----------- ----------- --------- --------- ----------------\n";
    static const char *const rows[] = {
        " 50.40    0.117862          49      -1           write\n",
        " 50.40    1e300             49      1            write\n",
        " 50.40    nan               49      1            write\n",
        " 50.40    -1                49      1            write\n",
        " 50.40    0.1               49      99999999999999999999 write\n",
        " 1 2 3 4 5 6 7 8 9 10 11 12 13\n",
        " write\n",
    };
    char text[512];

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        snprintf(text, sizeof(text), "%s%s", header, rows[i]);
        assert_int_equal(parse(text), 0);
        assert_int_equal(profile.sums.count, 0);
    }
    assert_int_equal(parse("calls calls syscall\n----\n1 1 read\n"), -ENODATA);
    assert_int_equal(parse("% errors calls syscall\n----\n1 1 1 read\n"), -ENODATA);
}

static void test_numbers_of_names(void **state _unused_)
{
    char buffer[SYSCALL_NAME_SIZE];

    for (unsigned call = 0; call < 600; call++) {
        const char *name = syscall_name(call, buffer);
        assert_int_equal(syscall_number(name), call);
    }
    assert_int_equal(syscall_number("syscall_0x1d6"), 0x1d6);
    assert_int_equal(syscall_number("no_such_call"), SYSCALL_OTHER);
    assert_int_equal(syscall_number("syscall_0xffff"), SYSCALL_OTHER);
    assert_int_equal(syscall_number(""), SYSCALL_OTHER);
}

static enum strace_status attach_state(const char *text, char *words)
{
    struct strace_output output = {.pid = 916};

    strace_output_add(&output, text, strlen(text));
    if (words)
        strcpy(words, output.message);
    strace_output_done(&output);
    return output.status;
}

static void test_attach_messages(void **state _unused_)
{
    char words[192] = "";

    assert_int_equal(attach_state("", NULL), STRACE_PENDING);
    assert_int_equal(attach_state("strace: Process 916 attached", NULL),
                     STRACE_PENDING); /* the line is incomplete */
    assert_int_equal(attach_state("strace: Process 916 attached\n", NULL), STRACE_ATTACHED);
    assert_int_equal(attach_state("strace: Process 916 attached with 8 threads\n", NULL),
                     STRACE_ATTACHED);
    assert_int_equal(attach_state("strace: Process 9160 attached\n", NULL), STRACE_PENDING);
    assert_int_equal(
        attach_state("strace: attach: ptrace(PTRACE_SEIZE, 916): Operation not permitted\n", words),
        STRACE_REFUSED);
    assert_string_equal(words, "attach: ptrace(PTRACE_SEIZE, 916): Operation not permitted");
    assert_int_equal(
        attach_state("strace: attach: ptrace(PTRACE_SEIZE, 916): No such process\n", NULL),
        STRACE_GONE);
    assert_int_equal(
        attach_state("strace: Could not attach to process. If your uid matches\n", NULL),
        STRACE_FAILED);
    assert_int_equal(
        attach_state("/usr/bin/strace: test_ptrace: PTRACE_TRACEME: Operation not permitted\n"
                     "/usr/bin/strace: Process 916 attached\n",
                     NULL),
        STRACE_ATTACHED);
    assert_int_equal(attach_state("not strace: Process 916 attached\n", NULL), STRACE_PENDING);
    assert_int_equal(attach_state("mistrace: Process 916 attached\n", NULL), STRACE_PENDING);
    assert_int_equal(attach_state("strace: Exit of unknown pid 9 ignored\n"
                                  "strace: Process 916 attached\n"
                                  "strace: attach: ptrace(PTRACE_SEIZE, 917): No such process\n",
                                  NULL),
                     STRACE_ATTACHED);
    assert_int_equal(attach_state("write(1, \"strace: Process 916 attached\")\n", NULL),
                     STRACE_PENDING);
}

/* However the output is split, and however many processes it names. */
static void test_output_in_pieces(void **state _unused_)
{
    static const char table[] =
        "% time     seconds  usecs/call     calls    errors syscall\n"
        "------ ----------- ----------- --------- --------- ----------------\n"
        "100.00    0.000049          49         7           write\n";

    for (size_t piece = 1; piece < 80; piece += 13) {
        struct strace_output output = {.pid = 916};
        struct syscall_profile calls = {0};
        char line[80];

        strace_output_add(&output, "strace: Process 916 attached\n", 29);
        for (int pid = 0; pid < 20000; pid++) {
            snprintf(line, sizeof(line), "strace: Process %d attached\n", pid);
            strace_output_add(&output, line, strlen(line));
        }
        for (size_t at = 0; at < strlen(table); at += piece)
            strace_output_add(&output, table + at, MIN(piece, strlen(table) - at));
        assert_false(output.was_cut);
        assert_int_equal(strace_output_parse(&output, &calls), 0);
        assert_int_equal(calls.sums.items[0].count, 7);
        assert_true(output.table.length < 300);
        syscall_profile_done(&calls);
        strace_output_done(&output);
    }
}

/* No more is kept than the largest table has. */
static void test_output_size_is_limited(void **state _unused_)
{
    struct strace_output output = {.pid = 916};
    struct syscall_profile calls = {0};
    char zeros[65536] = {0};

    for (int i = 0; i < 100; i++) /* one line without end */
        strace_output_add(&output, zeros, sizeof(zeros));
    assert_true(output.line.length <= STRACE_LINE_MAX_BYTES);
    strace_output_add(&output, "\nstrace: Process 916 attached\n", 30);
    assert_int_equal(output.status, STRACE_ATTACHED);
    for (int i = 0; i < 100000; i++)
        strace_output_add(&output, "garbage\n", 8);
    assert_true(output.was_cut);
    assert_true(output.table.length <= STRACE_TABLE_MAX_BYTES);
    assert_int_equal(strace_output_parse(&output, &calls), -ENODATA);
    strace_output_done(&output);
}

static void test_commands(void **state _unused_)
{
    struct strace_command command = {.program = "/usr/bin/strace"};
    static const char *const summary[] = {"/usr/bin/strace", "-c", "-w", "-f", "-p", "916", NULL};
    static const char *const full[] = {"/usr/bin/strace", "-f", "-tt", "-o",
                                       "/dev/stdout",     "-p", "916", NULL};

    strace_command_summary(&command, 916);
    for (size_t i = 0; i < ARRAY_SIZE(summary) - 1; i++)
        assert_string_equal(command.argv[i], summary[i]);
    assert_null(command.argv[ARRAY_SIZE(summary) - 1]);
    strace_command_full(&command, 916);
    for (size_t i = 0; i < ARRAY_SIZE(full) - 1; i++)
        assert_string_equal(command.argv[i], full[i]);
    assert_null(command.argv[ARRAY_SIZE(full) - 1]);
    strace_command_stream(&command, 917);
    assert_string_equal(command.argv[1], "-f");
    assert_string_equal(command.argv[4], "917");
    assert_null(command.argv[5]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_without_errors_column),
        cmocka_unit_test(test_other_columns),
        cmocka_unit_test(test_times_from_the_available_columns),
        cmocka_unit_test(test_decimal_comma),
        cmocka_unit_test(test_empty_and_truncated_tables),
        cmocka_unit_test(test_repeated_names),
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_numbers_of_names),
        cmocka_unit_test(test_attach_messages),
        cmocka_unit_test(test_output_in_pieces),
        cmocka_unit_test(test_output_size_is_limited),
        cmocka_unit_test(test_commands),
    };
    int r = cmocka_run_group_tests(tests, NULL, NULL);

    syscall_profile_done(&profile);
    return r;
}
