/* Exits that arrive in two events: when they are reported, and in which order. The test sets the
 * times. */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "model/field.h"
#include "probe/bpf/endings.h"

#define START_NS (100 * NS_PER_SEC)
#define TAG      7

struct report_log {
    struct endings endings;
    char words[512]; /* "PID:CPU_NS ", "PID:? " */
};

static void note(void *context, const struct kernel_exit *exit, const struct kernel_dead *dead)
{
    struct report_log *log = context;
    size_t length = strlen(log->words);
    char cpu[24] = "?";

    if (dead)
        snprintf(cpu, sizeof(cpu), "%lld", (long long)(exit->other_cpu_ns + dead->last_cpu_ns));
    snprintf(log->words + length, sizeof(log->words) - length, "%d:%s ", exit->head.pid, cpu);
}

static int set_up(void **state)
{
    static struct report_log log;

    log.words[0] = '\0';
    endings_init(&log.endings, note, &log);
    *state = &log;
    return 0;
}

static int tear_down(void **state)
{
    struct report_log *log = *state;

    endings_done(&log->endings);
    return 0;
}

static struct kernel_exit exit_of(pid_t pid, pid_t parent)
{
    return (struct kernel_exit){.head = {.pid = pid, .tid = pid, .tag = TAG, .mono_ns = START_NS},
                                .start_boot_ns = (uint64_t)pid * 1000,
                                .other_cpu_ns = 100,
                                .parent_pid = parent,
                                .is_exact = true};
}

static void leave(struct report_log *log, pid_t pid, pid_t parent)
{
    const struct kernel_exit exit = exit_of(pid, parent);

    endings_exit(&log->endings, &exit, 0);
}

static void die(struct report_log *log, pid_t pid)
{
    const struct kernel_dead dead = {.head = {.pid = pid, .tid = pid},
                                     .start_boot_ns = (uint64_t)pid * 1000,
                                     .last_cpu_ns = (uint64_t)pid};

    endings_dead(&log->endings, &dead, START_NS);
}

static void assert_reported(struct report_log *log, const char *words)
{
    assert_string_equal(log->words, words);
    log->words[0] = '\0';
}

static void test_both_parts(void **state)
{
    struct report_log *log = *state;

    leave(log, 10, 1);
    assert_reported(log, "");
    assert_true(endings_has(&log->endings, 10));
    assert_int_equal(log->endings.tagged, 1);
    die(log, 10);
    assert_reported(log, "10:110 ");
    assert_false(endings_has(&log->endings, 10));
    assert_int_equal(log->endings.tagged, 0);
    die(log, 10); /* reported already */
    assert_reported(log, "");
}

static void test_inexact_exit_is_reported_at_once(void **state)
{
    struct report_log *log = *state;
    struct kernel_exit exit = exit_of(10, 1);

    exit.is_exact = false;
    endings_exit(&log->endings, &exit, 0);
    assert_reported(log, "10:? ");
}

static void test_parent_exit_follows_children(void **state)
{
    struct report_log *log = *state;

    leave(log, 30, 20);
    leave(log, 31, 20);
    leave(log, 20, 10);
    leave(log, 10, 1);
    die(log, 10);
    die(log, 20);
    die(log, 31);
    assert_reported(log, "31:131 ");
    die(log, 30);
    assert_reported(log, "30:130 20:120 10:110 ");
}

static void test_exit_waits_only_for_children(void **state)
{
    struct report_log *log = *state;

    leave(log, 99, 1); /* freeing its memory takes long */
    leave(log, 20, 10);
    leave(log, 10, 1);
    die(log, 20);
    die(log, 10);
    assert_reported(log, "20:120 10:110 ");
    die(log, 99);
    assert_reported(log, "99:199 ");
}

static void test_lost_second_part(void **state)
{
    struct report_log *log = *state;

    leave(log, 20, 10);
    leave(log, 10, 1);
    die(log, 10);
    endings_overdue(&log->endings, START_NS + NS_PER_SEC - 1, 5);
    assert_reported(log, "");
    endings_overdue(&log->endings, START_NS + NS_PER_SEC, 5);
    assert_reported(log, "20:? 10:110 ");
}

static void test_nothing_was_lost(void **state)
{
    struct report_log *log = *state;

    leave(log, 20, 10);
    endings_overdue(&log->endings, START_NS + 59 * NS_PER_SEC, 0);
    assert_reported(log, "");
    endings_overdue(&log->endings, START_NS + 60 * NS_PER_SEC, 0);
    assert_reported(log, "20:? ");
}

/* A child that it did not wait for. */
static void test_slow_child(void **state)
{
    struct report_log *log = *state;

    leave(log, 20, 10);
    leave(log, 10, 1);
    die(log, 10);
    endings_overdue(&log->endings, START_NS + NS_PER_SEC - 1, 0);
    assert_reported(log, "");
    endings_overdue(&log->endings, START_NS + NS_PER_SEC, 0);
    assert_reported(log, "10:110 ");
    die(log, 20);
    assert_reported(log, "20:120 ");
}

static void test_settled_with_its_descendants(void **state)
{
    struct report_log *log = *state;

    leave(log, 30, 20);
    leave(log, 20, 10);
    leave(log, 10, 5);
    leave(log, 5, 1);
    leave(log, 99, 1);
    die(log, 20);
    die(log, 10);
    die(log, 5);
    assert_reported(log, "");
    endings_settle(&log->endings, 10);
    assert_reported(log, "30:? 20:120 10:110 5:105 ");
    endings_settle(&log->endings, 10);
    assert_reported(log, "");
    assert_true(endings_has(&log->endings, 99));
}

static void test_threads_that_end_at_once(void **state)
{
    struct report_log *log = *state;
    struct kernel_exit other = exit_of(10, 1);

    leave(log, 10, 1);
    other.head.tid = 11;
    endings_exit(&log->endings, &other, 0);
    assert_reported(log, "");
    die(log, 10);
    assert_reported(log, "10:110 ");
    endings_exit(&log->endings, &other, 0); /* also after the report */
    assert_reported(log, "");
}

static void test_pid_is_reused(void **state)
{
    struct report_log *log = *state;
    struct kernel_exit next = exit_of(10, 1);

    leave(log, 10, 1);
    next.start_boot_ns++;
    endings_exit(&log->endings, &next, 0);
    assert_reported(log, "10:? ");
    die(log, 10); /* of the former process */
    assert_reported(log, "");
    assert_true(endings_has(&log->endings, 10));
}

static void test_cycle_of_parents(void **state)
{
    struct report_log *log = *state;

    leave(log, 10, 20);
    leave(log, 20, 10);
    die(log, 10);
    die(log, 20);
    assert_reported(log, "");
    endings_settle(&log->endings, 10);
    assert_reported(log, "20:120 10:110 ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_both_parts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_inexact_exit_is_reported_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_parent_exit_follows_children, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_exit_waits_only_for_children, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_lost_second_part, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_nothing_was_lost, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_slow_child, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_settled_with_its_descendants, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_threads_that_end_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_pid_is_reused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cycle_of_parents, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("endings", tests, NULL, NULL);
}
