/* The parsers of the machine's tables and of cgroup files on text. */
#include "parse.h"

#include <stdio.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "base/text.h"
#include "model/field.h"
#include "probe/cgroup-files.h"
#include "probe/cgroup.h"
#include "probe/proc-io.h"
#include "probe/proc-status.h"
#include "probe/sys-files.h"

/* ---- the machine's tables ---- */

static void test_meminfo_in_bytes(void **state)
{
    (void)state;
    struct meminfo meminfo;

    assert_int_equal(PARSE(meminfo_parse,
                           "MemTotal:       24684100 kB\nMemFree: 1 kB\nMemAvailable:   7 kB\n"
                           "HugePages_Total:       0\n",
                           &meminfo),
                     0);
    assert_true(meminfo.total_bytes == INT64_C(24684100) * 1024);
    assert_int_equal(meminfo.available_bytes, 7 * 1024);

    assert_int_equal(PARSE(meminfo_parse, "MemTotal: 1 kB\nMemAvailable: 7", &meminfo), 0);
    assert_int_equal(meminfo.total_bytes, 1024);
    assert_false(int_is_known(meminfo.available_bytes));

    assert_bad(meminfo_parse, "MemTotal: 1\n", &meminfo);
    assert_bad(meminfo_parse, "MemTotal: -1 kB\n", &meminfo);
    assert_bad(meminfo_parse, "MemAvailable: 9007199254740992 kB\n", &meminfo);
    assert_int_equal(meminfo.total_bytes, 1024);
}

static void test_loadavg_has_three_numbers(void **state)
{
    (void)state;
    struct loadavg load;

    assert_int_equal(PARSE(loadavg_parse, "0.25 12.07 1031.99 2/82 4928\n", &load), 0);
    assert_real(load.avg_1, 0.25);
    assert_real(load.avg_5, 12.07);
    assert_real(load.avg_15, 1031.99);
    assert_bad(loadavg_parse, "", &load);
    assert_bad(loadavg_parse, "0.25 12.07\n", &load);
    assert_bad(loadavg_parse, "0.25 -1.00 0.00 2/82 4928\n", &load);
    assert_bad(loadavg_parse, "0.25 nan 0.00 2/82 4928\n", &load);
    assert_bad(loadavg_parse, "0.25 1e999 0.00 2/82 4928\n", &load);
    assert_bad(loadavg_parse, "0.00 0.00 0.00", &load);
    assert_bad(loadavg_parse, "0.000000000000000000000000000000000000000001 0.00 0.00 2/82 4928\n",
               &load);
    assert_int_equal(PARSE_BYTES(loadavg_parse, "0.0\0 1.0 1.0 \n", 14, &load), -EBADMSG);
    assert_real(load.avg_15, 1031.99);
}

static void test_cpu_ticks_exclude_guests(void **state)
{
    (void)state;
    struct cpu_ticks ticks;

    assert_int_equal(
        PARSE(cpu_ticks_parse, "cpu  1 2 4 8 16 32 64 128 256 512 1024\ncpu0 9\n", &ticks), 0);
    assert_int_equal(ticks.busy, 1 + 2 + 4 + 32 + 64);
    assert_int_equal(ticks.idle, 8 + 16);
    assert_int_equal(ticks.stolen, 128);

    assert_int_equal(PARSE(cpu_ticks_parse, "cpu  1 2 4 8\n", &ticks), 0);
    assert_int_equal(ticks.busy, 7);
    assert_int_equal(ticks.idle, 8);
    assert_int_equal(ticks.stolen, 0);
}

static void test_cpu_ticks_reject_garbage(void **state)
{
    (void)state;
    struct cpu_ticks ticks = {.busy = 3};

    assert_bad(cpu_ticks_parse, "", &ticks);
    assert_bad(cpu_ticks_parse, "cpu  1 2 4 8 16 32 64 128 256 512", &ticks);
    assert_bad(cpu_ticks_parse, "cpu  1 2 4\n", &ticks);
    assert_bad(cpu_ticks_parse, "cpu0 1 2 4 8 16 32 64 128 256 512\n", &ticks);
    assert_bad(cpu_ticks_parse, "cpu  1 2 -4 8 16 32 64 128 256 512\n", &ticks);
    assert_bad(cpu_ticks_parse, "cpu  18446744073709551615 1 0 0\n", &ticks);
    assert_bad(cpu_ticks_parse, "cpu  18446744073709551616 0 0 0\n", &ticks);
    assert_int_equal(ticks.busy, 3);
    assert_int_equal(PARSE(cpu_ticks_parse, "cpu  18446744073709551615 0 0 0\n", &ticks), 0);
    assert_true(ticks.busy == UINT64_MAX);
}

static void test_psi_has_one_or_two_lines(void **state)
{
    (void)state;
    struct psi_line psi;

    assert_int_equal(PARSE(psi_parse,
                           "some avg10=0.22 avg60=0.21 avg300=0.06 total=4386926\n"
                           "full avg10=100.00 avg60=0.00 avg300=0.00 total=0\nnew line\n",
                           &psi),
                     0);
    assert_real(psi.some_avg10, 0.22);
    assert_real(psi.full_avg10, 100.0);

    assert_int_equal(PARSE(psi_parse, "some avg10=1.50 avg60=0.21\nfull avg10=2.0", &psi), 0);
    assert_real(psi.some_avg10, 1.5);
    assert_false(real_is_known(psi.full_avg10));
    assert_int_equal(PARSE(psi_parse, "", &psi), 0);
    assert_false(real_is_known(psi.some_avg10));
    assert_bad(psi_parse, "some avg10=x avg60=0.21\n", &psi);
    assert_bad(psi_parse, "some avg10=-1.00 avg60=0.21\n", &psi);
    assert_bad(psi_parse, "full avg10=\n", &psi);
}

/* ---- cgroups ---- */

static void test_cgroup_paths_of_both_versions(void **state)
{
    (void)state;
    _cleanup_free_ struct cgroup_paths *paths = calloc(1, sizeof(*paths));

    assert_non_null(paths);
    assert_int_equal(PARSE(cgroup_paths_parse, "0::/user.slice/a:b/c d\n", paths), 0);
    assert_string_equal(paths->unified, "/user.slice/a:b/c d");
    assert_string_equal(paths->memory, "");
    assert_string_equal(paths->cpu, "");
    assert_string_equal(paths->pids, "");

    assert_int_equal(PARSE(cgroup_paths_parse,
                           "12:cpuset:/../x\n11:name=systemd:/s\n5:cpu,cpuacct:/c\n4:memory:/m\n"
                           "3:pids:/p\n2:cpuacct,notcpu:/n\n0::/\n",
                           paths),
                     0);
    assert_string_equal(paths->unified, "/");
    assert_string_equal(paths->memory, "/m");
    assert_string_equal(paths->cpu, "/c");
    assert_string_equal(paths->pids, "/p");

    assert_int_equal(PARSE(cgroup_paths_parse, "0::/whole\n4:memory:/cu", paths), 0);
    assert_string_equal(paths->unified, "/whole");
    assert_string_equal(paths->memory, "");
}

static void test_cgroup_paths_stay_inside(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "0::/..\n",      "0::/../x\n", "0::/a/..\n", "0::/a/../b\n", "4:memory:/../../etc\n",
        "0::relative\n", "0::\n",      "0:/\n",      "nonsense\n",   "\n",
    };
    _cleanup_free_ struct cgroup_paths *paths = calloc(1, sizeof(*paths));

    assert_non_null(paths);
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        assert_bad(cgroup_paths_parse, texts[i], paths);
    assert_int_equal(PARSE_BYTES(cgroup_paths_parse, "0::/a\0b\n", 8, paths), -EBADMSG);
    assert_int_equal(PARSE(cgroup_paths_parse, "0::/..a/b../.../c\n", paths), 0);
    assert_string_equal(paths->unified, "/..a/b../.../c");
}

static void test_cgroup_path_length_is_limited(void **state)
{
    (void)state;
    char text[CGROUP_PATH_SIZE + 8];
    _cleanup_free_ struct cgroup_paths *paths = calloc(1, sizeof(*paths));

    assert_non_null(paths);
    snprintf(text, sizeof(text), "0::/%0*d\n", CGROUP_PATH_SIZE - 2, 0);
    assert_int_equal(PARSE(cgroup_paths_parse, text, paths), 0);
    assert_int_equal(strlen(paths->unified), CGROUP_PATH_SIZE - 1);
    snprintf(text, sizeof(text), "0::/%0*d\n", CGROUP_PATH_SIZE - 1, 0);
    assert_bad(cgroup_paths_parse, text, paths);
}

static void test_cgroup_numbers(void **state)
{
    (void)state;
    int64_t number;

    assert_int_equal(PARSE(cgroup_number_parse, "1073741824\n", &number), 0);
    assert_int_equal(number, 1073741824);
    assert_int_equal(PARSE(cgroup_number_parse, "0\n", &number), 0);
    assert_int_equal(number, 0);
    static const char *const none[] = {"max\n", "-1\n", "9223372036854771712\n",
                                       "9223372036854710272\n", "18446744073709551615\n"};
    for (size_t i = 0; i < ARRAY_SIZE(none); i++) {
        number = 5;
        assert_int_equal(PARSE(cgroup_number_parse, none[i], &number), 0);
        assert_false(int_is_known(number));
    }
    static const char *const bad[] = {"", "\n", "12", "-2\n", "maximal\n", "12 13\n", "x\n"};
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_bad(cgroup_number_parse, bad[i], &number);
}

static void test_cgroup_cpu_max(void **state)
{
    (void)state;
    double cpus;

    assert_int_equal(PARSE(cgroup_cpu_max_parse, "150000 100000\n", &cpus), 0);
    assert_real(cpus, 1.5);
    assert_int_equal(PARSE(cgroup_cpu_max_parse, "max 100000\n", &cpus), 0);
    assert_false(real_is_known(cpus));
    static const char *const bad[] = {"",           "max\n",       "150000\n",      "150000 0\n",
                                      "0 100000\n", "-1 100000\n", "max 100000x\n", "1 2"};
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_bad(cgroup_cpu_max_parse, bad[i], &cpus);
}

static void test_cgroup_inactive_file(void **state)
{
    (void)state;
    int64_t bytes;

    assert_int_equal(
        PARSE(cgroup_memory_stat_parse, "anon 1\ninactive_file 5\nactive_file 9\n", &bytes), 0);
    assert_int_equal(bytes, 5);
    assert_int_equal(
        PARSE(cgroup_memory_stat_parse, "total_inactive_file 7\ninactive_file 5\n", &bytes), 0);
    assert_int_equal(bytes, 7);
    assert_int_equal(PARSE(cgroup_memory_stat_parse, "anon 1\ninactive_file 5", &bytes), 0);
    assert_false(int_is_known(bytes));
    assert_bad(cgroup_memory_stat_parse, "inactive_file -5\n", &bytes);
}

/* ---- all of them ---- */

/* A megabyte of lines that no parser knows, then one that it does. */
static void test_last_line_of_a_huge_file_is_read(void **state)
{
    (void)state;
    struct text huge = {0};
    struct proc_status status;
    struct proc_io io;
    struct meminfo meminfo;

    for (unsigned i = 0; huge.length < 1 << 20; i++)
        text_printf(&huge, "Line%u:\t%u\n", i, i);
    text_append_repeated(&huge, 'x', 1 << 20);
    text_append_string(&huge, "\nUid:\t3\nread_bytes: 4\nMemTotal: 5 kB\n");
    assert_int_equal(text_error(&huge), 0);

    assert_int_equal(PARSE_BYTES(proc_status_parse, huge.bytes, huge.length, &status), 0);
    assert_int_equal(status.uid, 3);
    assert_int_equal(PARSE_BYTES(proc_io_parse, huge.bytes, huge.length, &io), 0);
    assert_int_equal(io.read_bytes, 4);
    assert_int_equal(PARSE_BYTES(meminfo_parse, huge.bytes, huge.length, &meminfo), 0);
    assert_int_equal(meminfo.total_bytes, 5 * 1024);
    text_done(&huge);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_meminfo_in_bytes),
        cmocka_unit_test(test_loadavg_has_three_numbers),
        cmocka_unit_test(test_cpu_ticks_exclude_guests),
        cmocka_unit_test(test_cpu_ticks_reject_garbage),
        cmocka_unit_test(test_psi_has_one_or_two_lines),
        cmocka_unit_test(test_cgroup_paths_of_both_versions),
        cmocka_unit_test(test_cgroup_paths_stay_inside),
        cmocka_unit_test(test_cgroup_path_length_is_limited),
        cmocka_unit_test(test_cgroup_numbers),
        cmocka_unit_test(test_cgroup_cpu_max),
        cmocka_unit_test(test_cgroup_inactive_file),
        cmocka_unit_test(test_last_line_of_a_huge_file_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
