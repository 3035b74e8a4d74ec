/* The peaks of processes, from what the kernel records: since Linux 6.16 that of the last program
 * by itself, before only one of all programs. */
#include "unit.h"

#include <unistd.h>

#include "base/macros.h"
#include "model/field.h"
#include "probe/bpf/process-peaks.h"

#define PID      10
#define UNKNOWN  (-1)
#define ANY      (-1)
#define ALL_ONLY (-1) /* Linux before 6.16 */

static struct process_peaks peaks;

static int tear_down(void **state _unused_)
{
    process_peaks_done(&peaks);
    peaks = (struct process_peaks){0};
    return 0;
}

/* In pages; the peak may be UNKNOWN, and what is missing ANY. */
static void check(struct known_peak peak, int64_t expected, int64_t missing)
{
    int64_t page = sysconf(_SC_PAGESIZE);

    assert_true(peak.bytes == (expected == UNKNOWN ? INT_UNKNOWN : expected * page));
    assert_true(peak.missing_bytes == (missing == ANY ? INT64_MAX : missing * page));
}

static void check_exec(uint64_t former_pages, int64_t expected, int64_t missing)
{
    check(process_peaks_before_exec(&peaks, PID, former_pages), expected, missing);
}

static void check_exit(uint64_t former_pages, int64_t peak_pages, int64_t expected, int64_t missing)
{
    check(process_peaks_at_exit(&peaks, PID, former_pages, peak_pages), expected, missing);
}

/* A forked child has a copy of its parent's memory: all is its own. */
static void test_fork(void **state _unused_)
{
    process_peaks_forked(&peaks, PID, false);
    check_exec(100, 100, 0);
    check_exit(100, 20, 100, 0);

    process_peaks_forked(&peaks, PID, false);
    check_exec(100, 100, 0);
    check_exit(100, ALL_ONLY, 100, 0);
}

static void test_program_after_vfork(void **state _unused_)
{
    process_peaks_forked(&peaks, PID, true);
    check_exec(5000, UNKNOWN, 0); /* the parent's */
    check_exit(5000, 20, 20, 0);
}

/* Before Linux 6.16 a program with less memory than the parent has no peak of its own. */
static void test_program_after_vfork_on_older_kernels(void **state _unused_)
{
    process_peaks_forked(&peaks, PID, true);
    check_exec(5000, UNKNOWN, 0);
    check_exit(5000, ALL_ONLY, UNKNOWN, 5000);

    process_peaks_forked(&peaks, PID, true);
    check_exec(5000, UNKNOWN, 0);
    check_exit(6000, ALL_ONLY, 6000, 0);
}

/* The program between two execs may have had as much as the parent. */
static void test_programs_after_vfork(void **state _unused_)
{
    process_peaks_forked(&peaks, PID, true);
    check_exec(5000, UNKNOWN, 0);
    check_exec(5000, UNKNOWN, 5000);
    check_exec(7000, 7000, 0);
    check_exit(7000, 20, 7000, 0);
}

static void test_vfork_without_exec(void **state _unused_)
{
    process_peaks_forked(&peaks, PID, true);
    check_exit(0, 5000, UNKNOWN, 5000);

    process_peaks_forked(&peaks, PID, true);
    check_exit(5000, ALL_ONLY, UNKNOWN, 5000);
}

static void test_fork_that_was_not_reported(void **state _unused_)
{
    check_exit(0, 20, 20, 0);
    check_exit(20, ALL_ONLY, 20, 0);
    check_exit(0, ALL_ONLY, UNKNOWN, ANY);

    check_exec(5000, UNKNOWN, 0);
    check_exit(5000, 20, 20, 0);
}

/* A pid is used again. */
static void test_child_of_sonde(void **state _unused_)
{
    process_peaks_forked(&peaks, PID, true);
    process_peaks_forked_by_sonde(&peaks, PID);
    check_exit(0, 20, 20, 0);
}

int main(void)
{
#define T(test) cmocka_unit_test_teardown(test, tear_down)
    const struct CMUnitTest tests[] = {
        T(test_fork),
        T(test_program_after_vfork),
        T(test_program_after_vfork_on_older_kernels),
        T(test_programs_after_vfork),
        T(test_vfork_without_exec),
        T(test_fork_that_was_not_reported),
        T(test_child_of_sonde),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
