/* Ends that come in two parts: when they are told of, and in which order. Times are the test's. */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "model/field.h"
#include "probe/bpf/endings.h"

#define START_NS (100 * NS_PER_SEC)
#define TAG      7

struct told {
    struct endings endings;
    char words[512]; /* "PID:CPU_NS ", "PID:? " */
};

static void note(void *context, const struct kernel_exit *exit, int64_t cpu_ns)
{
    struct told *told = context;
    size_t length = strlen(told->words);
    char cpu[24] = "?";

    if (int_is_known(cpu_ns))
        snprintf(cpu, sizeof(cpu), "%lld", (long long)cpu_ns);
    snprintf(told->words + length, sizeof(told->words) - length, "%d:%s ", exit->head.pid, cpu);
}

static int set_up(void **state)
{
    static struct told told;

    told.words[0] = '\0';
    endings_init(&told.endings, note, &told);
    *state = &told;
    return 0;
}

static int tear_down(void **state)
{
    struct told *told = *state;

    endings_done(&told->endings);
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

static void leave(struct told *told, pid_t pid, pid_t parent)
{
    const struct kernel_exit exit = exit_of(pid, parent);

    endings_exit(&told->endings, &exit, 0);
}

static void die(struct told *told, pid_t pid)
{
    const struct kernel_dead dead = {.head = {.pid = pid, .tid = pid},
                                     .start_boot_ns = (uint64_t)pid * 1000,
                                     .last_cpu_ns = (uint64_t)pid};

    endings_dead(&told->endings, &dead, START_NS);
}

static void assert_told(struct told *told, const char *words)
{
    assert_string_equal(told->words, words);
    told->words[0] = '\0';
}

static void test_both_parts(void **state)
{
    struct told *told = *state;

    leave(told, 10, 1);
    assert_told(told, "");
    assert_true(endings_has(&told->endings, 10));
    assert_int_equal(told->endings.tagged, 1);
    die(told, 10);
    assert_told(told, "10:110 ");
    assert_false(endings_has(&told->endings, 10));
    assert_int_equal(told->endings.tagged, 0);
    die(told, 10); /* told of already */
    assert_told(told, "");
}

static void test_one_part_is_all(void **state)
{
    struct told *told = *state;
    struct kernel_exit exit = exit_of(10, 1);

    exit.is_exact = false;
    endings_exit(&told->endings, &exit, 0);
    assert_told(told, "10:? ");
}

static void test_nobody_ends_before_its_children(void **state)
{
    struct told *told = *state;

    leave(told, 30, 20);
    leave(told, 31, 20);
    leave(told, 20, 10);
    leave(told, 10, 1);
    die(told, 10);
    die(told, 20);
    die(told, 31);
    assert_told(told, "31:131 ");
    die(told, 30);
    assert_told(told, "30:130 20:120 10:110 ");
}

static void test_nobody_waits_for_others(void **state)
{
    struct told *told = *state;

    leave(told, 99, 1); /* has much memory to give back */
    leave(told, 20, 10);
    leave(told, 10, 1);
    die(told, 20);
    die(told, 10);
    assert_told(told, "20:120 10:110 ");
    die(told, 99);
    assert_told(told, "99:199 ");
}

static void test_lost_second_part(void **state)
{
    struct told *told = *state;

    leave(told, 20, 10);
    leave(told, 10, 1);
    die(told, 10);
    endings_overdue(&told->endings, START_NS + NS_PER_SEC - 1, 5);
    assert_told(told, "");
    endings_overdue(&told->endings, START_NS + NS_PER_SEC, 5);
    assert_told(told, "20:? 10:110 ");
}

static void test_nothing_was_lost(void **state)
{
    struct told *told = *state;

    leave(told, 20, 10);
    endings_overdue(&told->endings, START_NS + 59 * NS_PER_SEC, 0);
    assert_told(told, "");
    endings_overdue(&told->endings, START_NS + 60 * NS_PER_SEC, 0);
    assert_told(told, "20:? ");
}

/* One that it did not wait for. */
static void test_child_that_takes_long(void **state)
{
    struct told *told = *state;

    leave(told, 20, 10);
    leave(told, 10, 1);
    die(told, 10);
    endings_overdue(&told->endings, START_NS + NS_PER_SEC - 1, 0);
    assert_told(told, "");
    endings_overdue(&told->endings, START_NS + NS_PER_SEC, 0);
    assert_told(told, "10:110 ");
    die(told, 20);
    assert_told(told, "20:120 ");
}

static void test_settled_with_its_descendants(void **state)
{
    struct told *told = *state;

    leave(told, 30, 20);
    leave(told, 20, 10);
    leave(told, 10, 5);
    leave(told, 5, 1);
    leave(told, 99, 1);
    die(told, 20);
    die(told, 10);
    die(told, 5);
    assert_told(told, "");
    endings_settle(&told->endings, 10);
    assert_told(told, "30:? 20:120 10:110 5:105 ");
    endings_settle(&told->endings, 10);
    assert_told(told, "");
    assert_true(endings_has(&told->endings, 99));
}

static void test_threads_that_end_at_once(void **state)
{
    struct told *told = *state;
    struct kernel_exit other = exit_of(10, 1);

    leave(told, 10, 1);
    other.head.tid = 11;
    endings_exit(&told->endings, &other, 0);
    assert_told(told, "");
    die(told, 10);
    assert_told(told, "10:110 ");
    endings_exit(&told->endings, &other, 0); /* after that, as well */
    assert_told(told, "");
}

static void test_pid_comes_round_again(void **state)
{
    struct told *told = *state;
    struct kernel_exit next = exit_of(10, 1);

    leave(told, 10, 1);
    next.start_boot_ns++;
    endings_exit(&told->endings, &next, 0);
    assert_told(told, "10:? ");
    die(told, 10); /* the former one's */
    assert_told(told, "");
    assert_true(endings_has(&told->endings, 10));
}

static void test_family_without_an_oldest(void **state)
{
    struct told *told = *state;

    leave(told, 10, 20);
    leave(told, 20, 10);
    die(told, 10);
    die(told, 20);
    assert_told(told, "");
    endings_settle(&told->endings, 10);
    assert_told(told, "20:120 10:110 ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_both_parts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_one_part_is_all, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_nobody_ends_before_its_children, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_nobody_waits_for_others, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_lost_second_part, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_nothing_was_lost, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_child_that_takes_long, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_settled_with_its_descendants, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_threads_that_end_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_pid_comes_round_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_family_without_an_oldest, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("endings", tests, NULL, NULL);
}
