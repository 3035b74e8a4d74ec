/* Figures of tracers for nested runs, some of which have ended before. */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "trace/traced-runs.h"

static struct traced_runs runs;
static struct run outer = {.run_id = "outer"}, inner = {.run_id = "inner", .parent = &outer};
static struct syscall_profile calls;
static char reported[256];

static int set_up(void **state _unused_)
{
    runs = (struct traced_runs){0};
    reported[0] = '\0';
    syscall_profile_clear(&calls);
    return syscall_profile_add(&calls, &(struct syscall_sum){.call = 1, .count = 3, .ns = 5});
}

static int tear_down(void **state _unused_)
{
    traced_runs_done(&runs);
    syscall_profile_done(&calls);
    return 0;
}

static uint64_t count_of(const struct traced_run *run)
{
    return run->calls.sums.count ? run->calls.sums.items[0].count : 0;
}

static void on_late(void *context _unused_, const struct traced_run *run)
{
    size_t length = strlen(reported);

    snprintf(reported + length, sizeof(reported) - length, "%s %d;", run->run_id,
             (int)count_of(run));
}

static void end(struct traced_run *run)
{
    assert_int_equal(traced_runs_remove_tracer(&runs, run, &calls, on_late, NULL), 0);
}

static void test_parents_include_their_children(void **state _unused_)
{
    end(traced_runs_add_tracer(&runs, &inner));
    end(traced_runs_add_tracer(&runs, &outer));
    assert_int_equal(count_of(traced_runs_find(&runs, &inner)), 3);
    assert_int_equal(count_of(traced_runs_find(&runs, &outer)), 6);
    assert_string_equal(reported, ""); /* they are still traced and can be queried */
    assert_null(traced_runs_find(&runs, NULL));
}

static void test_reported_after_the_end(void **state _unused_)
{
    struct traced_run *first = traced_runs_add_tracer(&runs, &inner);
    struct traced_run *second = traced_runs_add_tracer(&runs, &inner);

    end(first);
    traced_runs_end_run(&runs, &inner, false);
    assert_null(traced_runs_find(&runs, &inner));
    end(second);
    assert_string_equal(reported, "inner 6;");
    traced_runs_end_run(&runs, &outer, false);
    assert_int_equal(runs.runs.count, 0);
}

static void test_all_are_over(void **state _unused_)
{
    struct traced_run *run = traced_runs_add_tracer(&runs, &inner);

    traced_runs_end_run(&runs, &outer, false); /* its inner runs continue */
    traced_runs_end_run(&runs, &inner, false);
    end(run);
    assert_string_equal(reported, "inner 3;outer 3;");
    assert_int_equal(runs.runs.count, 0);
}

/* The calls of the run were counted exactly by another source. */
static void test_counted_by_others(void **state _unused_)
{
    struct traced_run *run = traced_runs_add_tracer(&runs, &inner);

    traced_runs_end_run(&runs, &inner, true);
    end(run);
    assert_string_equal(reported, "");
    assert_int_equal(count_of(traced_runs_find(&runs, &outer)), 3);
}

/* A run continues while its outer run is forgotten. */
static void test_parent_is_forgotten(void **state _unused_)
{
    end(traced_runs_add_tracer(&runs, &inner));
    traced_runs_end_run(&runs, &outer, false);
    assert_int_equal(runs.runs.count, 1);
    assert_null(traced_runs_find(&runs, &inner)->parent);
    struct run orphan = inner;
    orphan.parent = NULL;
    traced_runs_end_run(&runs, &inner, false);
    end(traced_runs_add_tracer(&runs, &orphan));
    assert_int_equal(count_of(traced_runs_find(&runs, &orphan)), 3);
}

int main(void)
{
#define RUNS_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        RUNS_TEST(test_parents_include_their_children),
        RUNS_TEST(test_reported_after_the_end),
        RUNS_TEST(test_all_are_over),
        RUNS_TEST(test_counted_by_others),
        RUNS_TEST(test_parent_is_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
