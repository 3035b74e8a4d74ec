/* The parsers of PID/ files on text: ordinary, hostile and malformed content. */
#include "parse.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "base/text.h"
#include "model/field.h"
#include "probe/lines.h"
#include "probe/proc-cmdline.h"
#include "probe/proc-io.h"
#include "probe/proc-limits.h"
#include "probe/proc-pss.h"
#include "probe/proc-stat.h"
#include "probe/proc-statm.h"
#include "probe/proc-status.h"

/* ---- lines ---- */

static void test_incomplete_last_line_is_not_returned(void **state)
{
    (void)state;
    const char text[] = "one\n\nthree";
    const char *at = text, *end = text + sizeof(text) - 1;
    struct line line;

    assert_true(lines_next(&at, end, &line));
    assert_memory_equal(line.at, "one", 3);
    assert_true(lines_next(&at, end, &line));
    assert_ptr_equal(line.at, line.end);
    assert_false(lines_next(&at, end, &line));
    assert_int_equal(lines_first("cut", 3, &line), -EBADMSG);
}

static void test_numbers_end_at_a_blank(void **state)
{
    (void)state;
    const char text[] = "12 13\t14x";
    struct line line = {.at = text, .end = text + sizeof(text) - 1};
    uint64_t value = 0;

    assert_int_equal(line_scan_uint(&line, &value), 0);
    assert_int_equal(value, 12);
    assert_int_equal(line_scan_uint(&line, &value), 0);
    assert_int_equal(value, 13);
    assert_int_equal(line_scan_uint(&line, &value), -EBADMSG);
    assert_int_equal(value, 13);
    assert_int_equal(*line.at, '1');
}

/* ---- PID/stat ---- */

#define STAT_HEAD "5118 (cat) R 5106 "
#define STAT_TAIL                                                                                  \
    "5106 3972 0 -1 4194304 106 0 0 0 11 22 33 44 20 0 7 0 153838 3133440 366 "                    \
    "18446744073709551615 93933621096448 93933621116329 140721624000384 0 0 0 0 0 0 0 0 0 17 1 0 " \
    "0 0 0 0 93933621132336 93933621133952 93934578659328 140721624009284 140721624009354 "        \
    "140721624009354 140721624010731 0\n"

static void test_stat_of_an_ordinary_process(void **state)
{
    (void)state;
    struct proc_stat stat;

    assert_int_equal(PARSE(proc_stat_parse, STAT_HEAD STAT_TAIL, &stat), 0);
    assert_int_equal(stat.pid, 5118);
    assert_string_equal(stat.name, "cat");
    assert_int_equal(stat.state, 'R');
    assert_int_equal(stat.ppid, 5106);
    assert_int_equal(stat.flags, 4194304);
    assert_int_equal(stat.user_ticks, 11);
    assert_int_equal(stat.system_ticks, 22);
    assert_int_equal(stat.children_user_ticks, 33);
    assert_int_equal(stat.children_system_ticks, 44);
    assert_int_equal(stat.threads, 7);
    assert_int_equal(stat.start_ticks, 153838);
    assert_int_equal(stat.vsize_bytes, 3133440);
    assert_int_equal(stat.arg_start, 140721624009284);
    assert_false(proc_stat_is_kernel_thread(&stat));
}

static void test_stat_name_may_contain_any_byte(void **state)
{
    (void)state;
    static const char *const names[] = {
        "a) R 1 (b", ")", "))", "(", "", " ", "x\ny", "\x1b[31m", "a) S 1 2 3 4", ") (", "\xff\xfe",
    };
    char text[512];
    struct proc_stat stat;

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        snprintf(text, sizeof(text), "77 (%s) S 5 " STAT_TAIL, names[i]);
        assert_int_equal(PARSE(proc_stat_parse, text, &stat), 0);
        assert_int_equal(stat.pid, 77);
        assert_string_equal(stat.name, names[i]);
        assert_int_equal(stat.state, 'S');
        assert_int_equal(stat.ppid, 5);
        assert_int_equal(stat.start_ticks, 153838);
    }
}

static void test_stat_long_name_is_cut(void **state)
{
    (void)state;
    char text[512];
    struct proc_stat stat;

    snprintf(text, sizeof(text), "2 (%0100d) I 0 " STAT_TAIL, 0);
    assert_int_equal(PARSE(proc_stat_parse, text, &stat), 0);
    assert_int_equal(strlen(stat.name), PROC_NAME_SIZE - 1);
    assert_int_equal(stat.state, 'I');
}

/* Makes a stat file in which one field, numbered as in proc(5), has the given text. */
static void stat_with(char *into, size_t size, unsigned field, const char *value)
{
    _cleanup_free_ char *fields = strdup(STAT_HEAD STAT_TAIL);
    struct text out = {0};
    unsigned number = 1;

    assert_non_null(fields);
    for (char *word = strtok(fields, " \n"); word; word = strtok(NULL, " \n"), number++)
        text_printf(&out, "%s%s", number > 1 ? " " : "", number == field ? value : word);
    text_append_char(&out, '\n');
    assert_int_equal(text_error(&out), 0);
    assert_true(out.length < size);
    memcpy(into, out.bytes, out.length + 1);
    text_done(&out);
}

static void test_stat_accepts_64_bit_values(void **state)
{
    (void)state;
    static const unsigned full_range[] = {9, 14, 15, 16, 17, 22, 23, 48};
    char text[1024];
    struct proc_stat stat;

    for (size_t i = 0; i < ARRAY_SIZE(full_range); i++) {
        stat_with(text, sizeof(text), full_range[i], "18446744073709551615");
        assert_int_equal(PARSE(proc_stat_parse, text, &stat), 0);
        stat_with(text, sizeof(text), full_range[i], "18446744073709551616");
        assert_bad(proc_stat_parse, text, &stat);
    }
    stat_with(text, sizeof(text), 22, "18446744073709551615");
    assert_int_equal(PARSE(proc_stat_parse, text, &stat), 0);
    assert_true(stat.start_ticks == UINT64_MAX);

    stat_with(text, sizeof(text), 20, "9223372036854775807");
    assert_int_equal(PARSE(proc_stat_parse, text, &stat), 0);
    assert_true(stat.threads == INT64_MAX);
    stat_with(text, sizeof(text), 20, "9223372036854775808");
    assert_bad(proc_stat_parse, text, &stat);

    stat_with(text, sizeof(text), 4, "2147483647");
    assert_int_equal(PARSE(proc_stat_parse, text, &stat), 0);
    assert_int_equal(stat.ppid, INT32_MAX);
    stat_with(text, sizeof(text), 4, "2147483648");
    assert_bad(proc_stat_parse, text, &stat);
    stat_with(text, sizeof(text), 1, "2147483648");
    assert_bad(proc_stat_parse, text, &stat);
}

static void test_stat_rejects_other_text_than_numbers(void **state)
{
    (void)state;
    static const unsigned fields[] = {1, 4, 9, 10, 12, 14, 15, 16, 17, 20, 22, 23, 48};
    static const char *const values[] = {"-1", "x", "1x", "+1", "0x1", "1.5", "-"};
    char text[1024];
    struct proc_stat stat;

    for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
        for (size_t j = 0; j < ARRAY_SIZE(values); j++) {
            stat_with(text, sizeof(text), fields[i], values[j]);
            assert_bad(proc_stat_parse, text, &stat);
        }
}

static void test_stat_ignores_other_fields(void **state)
{
    (void)state;
    static const unsigned others[] = {5, 6, 7, 8, 11, 13, 18, 19, 21, 24, 25, 47, 49, 52};
    char text[1024];
    struct proc_stat stat;

    for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
        stat_with(text, sizeof(text), others[i], "-99999999999999999999999");
        assert_int_equal(PARSE(proc_stat_parse, text, &stat), 0);
        assert_int_equal(stat.arg_start, 140721624009284);
    }
}

static void test_stat_rejects_truncated_text(void **state)
{
    (void)state;
    const char text[] = STAT_HEAD STAT_TAIL;
    const size_t arg_end = (size_t)(strstr(text, " 140721624009354") - text);
    struct proc_stat stat = {.pid = -5};

    for (size_t length = 0; length < sizeof(text); length++) {
        int r = PARSE_BYTES(proc_stat_parse, text, length, &stat);
        if (length <= arg_end + 1) {
            assert_int_equal(r, -EBADMSG);
            assert_int_equal(stat.pid, -5); /* untouched on failure */
        } else {
            assert_int_equal(r, 0);
            assert_int_equal(stat.arg_start, 140721624009284);
        }
    }
}

static void test_stat_rejects_garbage(void **state)
{
    (void)state;
    struct proc_stat stat;

    assert_bad(proc_stat_parse, "", &stat);
    assert_bad(proc_stat_parse, "\n", &stat);
    assert_bad(proc_stat_parse, "1 ()", &stat);
    assert_bad(proc_stat_parse, "1 cat R 1 " STAT_TAIL, &stat);
    assert_bad(proc_stat_parse, "1 (cat R 1 " STAT_TAIL, &stat);
    assert_bad(proc_stat_parse, "1 (cat)R 1 " STAT_TAIL, &stat);
    assert_bad(proc_stat_parse, "1 (cat) 7 1 " STAT_TAIL, &stat);
    assert_bad(proc_stat_parse, "1 (cat) RR 1 2", &stat);
    assert_bad(proc_stat_parse, ") R 1 (", &stat);
}

static void test_stat_recognises_kernel_threads(void **state)
{
    (void)state;
    char text[1024];
    struct proc_stat stat;

    stat_with(text, sizeof(text), 9, "69238880"); /* the flags of a kworker */
    assert_int_equal(PARSE(proc_stat_parse, text, &stat), 0);
    assert_true(proc_stat_is_kernel_thread(&stat));
}

/* ---- PID/statm ---- */

static void test_statm_has_three_numbers(void **state)
{
    (void)state;
    struct proc_statm statm = {.size_pages = 1};

    assert_int_equal(PARSE(proc_statm_parse, "765 410 382 5 0 90 0\n", &statm), 0);
    assert_int_equal(statm.size_pages, 765);
    assert_int_equal(statm.resident_pages, 410);
    assert_int_equal(statm.shared_pages, 382);

    assert_int_equal(PARSE(proc_statm_parse, "0 0 18446744073709551615 0 0 0 0\n", &statm), 0);
    assert_true(statm.shared_pages == UINT64_MAX);
    assert_bad(proc_statm_parse, "0 0 18446744073709551616 0 0 0 0\n", &statm);
    assert_bad(proc_statm_parse, "1 -2 3 0 0 0 0\n", &statm);
    assert_bad(proc_statm_parse, "1 2\n", &statm);
    assert_bad(proc_statm_parse, "1 2 3", &statm);
    assert_bad(proc_statm_parse, "", &statm);
    assert_true(statm.shared_pages == UINT64_MAX);
}

/* ---- PID/status ---- */

#define STATUS                                                                                     \
    "Name:\tcat\\nUid:\t7\nUmask:\t0022\nState:\tR (running)\nUid:\t1000\t0\t0\t0\n"               \
    "Gid:\t5\t5\t5\t5\nGroups:\t \nVmPeak:\t    3060 kB\nVmHWM:\t    1640 kB\n"                    \
    "SigIgn:\t0000000000011000\nNewInSomeKernel:\t?\nno colon here\n"                              \
    "Cpus_allowed:\t3\n"

static void test_status_of_an_ordinary_process(void **state)
{
    (void)state;
    struct proc_status status;

    assert_int_equal(PARSE(proc_status_parse, STATUS, &status), 0);
    assert_int_equal(status.uid, 1000);
    assert_int_equal(status.peak_rss_bytes, 1640 * 1024);
    assert_true(status.ignores_sigchld);
}

static void test_status_lines_may_be_missing(void **state)
{
    (void)state;
    struct proc_status status;

    assert_int_equal(PARSE(proc_status_parse, "", &status), 0);
    assert_false(int_is_known(status.uid));
    assert_false(int_is_known(status.peak_rss_bytes));
    assert_false(status.ignores_sigchld);

    assert_int_equal(PARSE(proc_status_parse, "Uid:\t4294967295\t0\nSigIgn:\t0\n", &status), 0);
    assert_true(status.uid == UINT32_MAX);
    assert_false(status.ignores_sigchld);
}

static void test_status_ignores_an_incomplete_line(void **state)
{
    (void)state;
    const char text[] = STATUS;
    const size_t uid_end = (size_t)(strstr(text, "\nGid:") - text);
    const size_t peak_end = (size_t)(strstr(text, "\nSigIgn:") - text);
    const size_t mask_end = (size_t)(strstr(text, "\nNew") - text);

    for (size_t length = 0; length < sizeof(text); length++) {
        struct proc_status status;
        assert_int_equal(PARSE_BYTES(proc_status_parse, text, length, &status), 0);
        assert_true(status.uid == (length > uid_end ? 1000 : INT_UNKNOWN));
        assert_true(status.peak_rss_bytes == (length > peak_end ? 1640 * 1024 : INT_UNKNOWN));
        assert_true(status.ignores_sigchld == (length > mask_end));
    }
}

static void test_status_rejects_malformed_lines(void **state)
{
    (void)state;
    struct proc_status status = {.uid = 5};
    static const char *const texts[] = {
        "Uid:\n",
        "Uid:\t-1\t0\n",
        "Uid:\t4294967296\t0\n",
        "Uid:\tx\n",
        "Uid:\t1x\n",
        "VmHWM:\t 12\n",
        "VmHWM:\t 12 MB\n",
        "VmHWM:\t -12 kB\n",
        "VmHWM:\t 9007199254740992 kB\n",     /* one past INT64_MAX in bytes */
        "VmHWM:\t 18446744073709551615 kB\n", /* UINT64_MAX */
        "SigIgn:\t\n",
        "SigIgn:\txyz\n",
        "SigIgn:\t12 34\n",
    };

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        assert_bad(proc_status_parse, texts[i], &status);
    assert_int_equal(status.uid, 5);
    assert_int_equal(PARSE(proc_status_parse, "VmHWM:\t 9007199254740991 kB\n", &status), 0);
    assert_true(status.peak_rss_bytes == INT64_C(9007199254740991) * 1024);
}

static void test_status_accepts_wide_masks(void **state)
{
    (void)state;
    struct proc_status status;

    assert_int_equal(
        PARSE(proc_status_parse, "SigIgn:\tffffffffffffffff0000000000010000\n", &status), 0);
    assert_true(status.ignores_sigchld);
    assert_int_equal(PARSE(proc_status_parse, "SigIgn:\tfffffffffffeffff\n", &status), 0);
    assert_false(status.ignores_sigchld);
}

/* ---- PID/io ---- */

static void test_pss_has_two_figures(void **state)
{
    (void)state;
    struct proc_pss pss;

    const char text[] = "55d0-7ffd ---p 00000000 00:00 0  [rollup]\nRss:  900 kB\nPss:  700 kB\n"
                        "Pss_Dirty: 20 kB\nPss_Anon: 300 kB\nPss_File: 250 kB\nPss_Shmem: 150 kB\n";
    assert_int_equal(PARSE(proc_pss_parse, text, &pss), 0);
    assert_int_equal(pss.total_bytes, 700 * 1024);
    assert_int_equal(pss.anon_bytes, 300 * 1024);
    assert_bad(proc_pss_parse, "Pss: 700 kB\n", &pss);
    assert_bad(proc_pss_parse, "Pss: 700 kB\nPss_Anon: 701 kB\n", &pss);
    assert_bad(proc_pss_parse, "Pss: -1 kB\nPss_Anon: 1 kB\n", &pss);
}

static void test_io_counts_storage_only(void **state)
{
    (void)state;
    struct proc_io io;

    assert_int_equal(PARSE(proc_io_parse,
                           "rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\n"
                           "write_bytes: 6\ncancelled_write_bytes: 7\nlater: -\n",
                           &io),
                     0);
    assert_int_equal(io.read_bytes, 5);
    assert_int_equal(io.write_bytes, 6);
}

static void test_io_lines_may_be_missing(void **state)
{
    (void)state;
    struct proc_io io;

    assert_int_equal(PARSE(proc_io_parse, "", &io), 0);
    assert_false(int_is_known(io.read_bytes));
    assert_int_equal(PARSE(proc_io_parse, "read_bytes: 5\nwrite_bytes: 6", &io), 0);
    assert_int_equal(io.read_bytes, 5);
    assert_false(int_is_known(io.write_bytes));
}

static void test_io_rejects_values_out_of_range(void **state)
{
    (void)state;
    struct proc_io io = {.read_bytes = 1};

    assert_bad(proc_io_parse, "read_bytes: -5\n", &io);
    assert_bad(proc_io_parse, "write_bytes: \n", &io);
    assert_bad(proc_io_parse, "write_bytes: 9223372036854775808\n", &io);
    assert_bad(proc_io_parse, "read_bytes: 99999999999999999999999999\n", &io);
    assert_int_equal(io.read_bytes, 1);
    assert_int_equal(PARSE(proc_io_parse, "read_bytes: 9223372036854775807\n", &io), 0);
    assert_true(io.read_bytes == INT64_MAX);
}

/* ---- PID/limits ---- */

#define LIMITS_HEAD                                                                                \
    "Limit                     Soft Limit           Hard Limit           Units     \n"             \
    "Max processes             96349                96349                processes \n"
#define LIMITS_FILES(soft) "Max open files            " soft " 1048576              files     \n"

static void test_limits_of_open_files(void **state)
{
    (void)state;
    int64_t limit = -5;

    assert_int_equal(
        PARSE(proc_limits_parse_fds, LIMITS_HEAD LIMITS_FILES("1024                "), &limit), 0);
    assert_int_equal(limit, 1024);
    assert_int_equal(
        PARSE(proc_limits_parse_fds, LIMITS_HEAD LIMITS_FILES("unlimited           "), &limit), 0);
    assert_true(limit == INT64_MAX);
    assert_bad(proc_limits_parse_fds, "", &limit);
    assert_bad(proc_limits_parse_fds, LIMITS_HEAD, &limit);
    assert_bad(proc_limits_parse_fds, LIMITS_FILES("-1"), &limit);
    assert_bad(proc_limits_parse_fds, LIMITS_FILES("unlimitedly"), &limit);
    assert_bad(proc_limits_parse_fds, LIMITS_FILES("9223372036854775808"), &limit);
    assert_bad(proc_limits_parse_fds, "Max open files\n", &limit);
    assert_true(limit == INT64_MAX);
}

static void test_limits_rejects_truncated_text(void **state)
{
    (void)state;
    const char text[] = LIMITS_HEAD LIMITS_FILES("1024");
    int64_t limit;

    for (size_t length = 0; length < sizeof(text) - 1; length++)
        assert_int_equal(PARSE_BYTES(proc_limits_parse_fds, text, length, &limit), -EBADMSG);
    assert_int_equal(PARSE(proc_limits_parse_fds, text, &limit), 0);
}

/* ---- PID/cmdline ---- */

static void expect_cmdline(const char *bytes, size_t length, size_t capacity, const char *expected)
{
    _cleanup_free_ char *from = malloc(length + !length);
    _cleanup_free_ char *into = malloc(capacity);

    assert_non_null(from);
    assert_non_null(into);
    memcpy(from, bytes, length);
    size_t used = proc_cmdline_parse(from, length, into, capacity);
    assert_string_equal(into, expected);
    assert_int_equal(used, strlen(expected));
}
#define CMDLINE(literal, capacity, expected)                                                       \
    expect_cmdline(literal, sizeof(literal) - 1, capacity, expected)

static void test_cmdline_joins_arguments(void **state)
{
    (void)state;
    CMDLINE("make\0-j4\0all\0", 64, "make -j4 all");
    CMDLINE("sh\0-c\0\0x\0", 64, "sh -c  x");
    CMDLINE("no end", 64, "no end");
    CMDLINE("sshd: alice [priv]\0\0\0   \0", 64, "sshd: alice [priv]");
    CMDLINE("", 64, "");
    CMDLINE("\0\0\0", 64, "");
    CMDLINE("a\nb\033[31m\0", 64, "a\nb\033[31m");
}

static void test_cmdline_is_cut_on_a_character(void **state)
{
    (void)state;
    CMDLINE("a\0b", 1, "");
    CMDLINE("a\0b", 3, "a");
    CMDLINE("a\0b", 4, "a b");
    CMDLINE("\u8a9e\u8a9e", 6, "\u8a9e");
    CMDLINE("\u8a9e\u8a9e", 7, "\u8a9e\u8a9e");
    CMDLINE("x\xff\0", 64, "x\ufffd");
    CMDLINE("x\xff\0", 4, "x");
}

static void test_cmdline_from_a_name(void **state)
{
    (void)state;
    char into[16];

    assert_int_equal(proc_cmdline_from_name("kthreadd", into, sizeof(into)), 10);
    assert_string_equal(into, "[kthreadd]");
    assert_int_equal(proc_cmdline_from_name("", into, sizeof(into)), 2);
    assert_string_equal(into, "[]");
    assert_int_equal(proc_cmdline_from_name("\xff", into, sizeof(into)), 5);
    assert_string_equal(into, "[\ufffd]");
    assert_int_equal(proc_cmdline_from_name("kthreadd", into, 5), 4);
    assert_string_equal(into, "[kt]");
    assert_int_equal(proc_cmdline_from_name("kthreadd", into, 3), 2);
    assert_string_equal(into, "[]");
    assert_int_equal(proc_cmdline_from_name("kthreadd", into, 2), 0);
    assert_string_equal(into, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_incomplete_last_line_is_not_returned),
        cmocka_unit_test(test_numbers_end_at_a_blank),
        cmocka_unit_test(test_stat_of_an_ordinary_process),
        cmocka_unit_test(test_stat_name_may_contain_any_byte),
        cmocka_unit_test(test_stat_long_name_is_cut),
        cmocka_unit_test(test_stat_accepts_64_bit_values),
        cmocka_unit_test(test_stat_rejects_other_text_than_numbers),
        cmocka_unit_test(test_stat_ignores_other_fields),
        cmocka_unit_test(test_stat_rejects_truncated_text),
        cmocka_unit_test(test_stat_rejects_garbage),
        cmocka_unit_test(test_stat_recognises_kernel_threads),
        cmocka_unit_test(test_statm_has_three_numbers),
        cmocka_unit_test(test_status_of_an_ordinary_process),
        cmocka_unit_test(test_status_lines_may_be_missing),
        cmocka_unit_test(test_status_ignores_an_incomplete_line),
        cmocka_unit_test(test_status_rejects_malformed_lines),
        cmocka_unit_test(test_status_accepts_wide_masks),
        cmocka_unit_test(test_pss_has_two_figures),
        cmocka_unit_test(test_io_counts_storage_only),
        cmocka_unit_test(test_io_lines_may_be_missing),
        cmocka_unit_test(test_io_rejects_values_out_of_range),
        cmocka_unit_test(test_limits_of_open_files),
        cmocka_unit_test(test_limits_rejects_truncated_text),
        cmocka_unit_test(test_cmdline_joins_arguments),
        cmocka_unit_test(test_cmdline_is_cut_on_a_character),
        cmocka_unit_test(test_cmdline_from_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
