/* Which job an orphan belongs to: foster parents inherit the orphans of a run, also those that no
 * event reported. */
#include "jobs-world.h"

static void test_the_foster_parent_gets_the_orphans(void **state)
{
    struct fixture *f = *state;

    registry_set_foster(f->registry, 42, f->run);
    assert_ptr_equal(place(f->registry, 300, 42, 70), f->run);
    assert_ptr_equal(registry_run_of_reaped(f->registry, 42, 300), f->run);
    assert_int_equal(f->run->node.processes, 1);
    /* an orphan that was never read is counted when it is reaped */
    assert_ptr_equal(registry_run_of_reaped(f->registry, 42, 301), f->run);
    assert_int_equal(f->run->node.processes, 2);
    /* if events report all processes, it was counted at its fork: not again */
    registry_trust_events(f->registry);
    assert_ptr_equal(registry_run_of_reaped(f->registry, 42, 302), f->run);
    assert_int_equal(f->run->node.processes, 2);
    /* not a child of the foster parent */
    assert_null(registry_run_of_reaped(f->registry, 43, 303));
}

static void test_unrelated_processes_are_excluded(void **state)
{
    struct fixture *f = *state;

    registry_exclude(f->registry, 30);
    registry_exclude(f->registry, 31);
    registry_set_foster(f->registry, 42, f->run);
    assert_int_equal(registry_excluded_count(f->registry), 2);
    assert_null(place(f->registry, 30, 42, 70));
    assert_null(registry_run_of_reaped(f->registry, 42, 30));
    registry_fork(f->registry, 42, 31);
    assert_null(registry_find(f->registry, 31));
    registry_remove(f->registry, 30); /* the pid is free for others */
    assert_false(registry_is_excluded(f->registry, 30));
    assert_ptr_equal(place(f->registry, 30, 42, 90), f->run);
}

static void test_each_run_has_its_own_foster_parent(void **state)
{
    struct fixture *f = *state;
    struct run *other = add_run(f->registry, "other", NULL);

    registry_set_foster(f->registry, 42, f->run);
    registry_set_foster(f->registry, 43, other);
    assert_ptr_equal(place(f->registry, 300, 42, 70), f->run);
    assert_ptr_equal(place(f->registry, 301, 43, 70), other);
    /* another one for the same run */
    registry_set_foster(f->registry, 44, other);
    assert_null(place(f->registry, 302, 43, 70));
    assert_ptr_equal(place(f->registry, 303, 44, 70), other);
    /* the same one for another run */
    registry_set_foster(f->registry, 42, other);
    assert_ptr_equal(place(f->registry, 304, 42, 70), other);
    assert_null(place(f->registry, 305, 44, 70));
    registry_end_run(f->registry, other);
    assert_null(place(f->registry, 306, 42, 70));
}

static void test_foster_parent_identity(void **state)
{
    struct fixture *f = *state;

    registry_set_foster(f->registry, 42, f->run);
    registry_fork(f->registry, 7, 42); /* its own fork event, late */
    place(f->registry, 42, 7, 60);
    assert_ptr_equal(place(f->registry, 300, 42, 70), f->run);
    place(f->registry, 42, 7, 80); /* another process has its pid now */
    assert_null(place(f->registry, 301, 42, 90));

    registry_set_foster(f->registry, 43, f->run);
    registry_fork(f->registry, 7, 43);
    registry_fork(f->registry, 8, 43); /* the same by the events */
    registry_fork(f->registry, 43, 302);
    assert_null(registry_find(f->registry, 302));
}

static void test_a_foster_parent_that_has_ended(void **state)
{
    struct fixture *f = *state;

    registry_set_foster(f->registry, 42, f->run);
    registry_exit(f->registry, 42, 0);
    registry_fork(f->registry, 7, 42);
    registry_fork(f->registry, 42, 300);
    assert_null(registry_find(f->registry, 300));
    assert_null(place(f->registry, 301, 42, 90));

    /* a member ends with its last thread */
    add(f, 100);
    registry_set_foster(f->registry, 100, f->run);
    registry_fork(f->registry, 7, 100);
    registry_thread(f->registry, 100);
    registry_exit(f->registry, 100, 0);
    assert_true(registry_is_foster(f->registry, 100));
    registry_exit(f->registry, 100, 0);
    assert_false(registry_is_foster(f->registry, 100));
}

/* Its fork event is late, or is that of another process with its pid, whose children belong to no
 * run. */
static void test_foster_parent_with_reused_pid(void **state)
{
    struct fixture *f = *state;

    registry_set_foster(f->registry, 42, f->run);
    registry_expect(f->registry, 42, 60);
    registry_fork(f->registry, 7, 42);
    registry_fork(f->registry, 42, 300);
    assert_null(registry_find(f->registry, 300));
    assert_null(place(f->registry, 301, 42, 90));
    place(f->registry, 42, 7, 60); /* it was late */
    assert_ptr_equal(place(f->registry, 300, 42, 90), f->run);
    place(f->registry, 42, 7, 80);
    assert_null(place(f->registry, 302, 42, 90));

    registry_set_foster(f->registry, 43, f->run);
    registry_expect(f->registry, 43, 60);
    place(f->registry, 43, 7, 61); /* it was never read before */
    assert_null(place(f->registry, 303, 43, 90));
}

static void test_member_with_expected_start(void **state)
{
    struct fixture *f = *state;

    add(f, 100);
    registry_expect(f->registry, 100, 50);
    assert_int_equal(registry_find(f->registry, 100)->start_ticks, 0); /* not read yet */
    assert_null(place(f->registry, 100, 1, 51));
    add(f, 101);
    registry_expect(f->registry, 101, 50);
    assert_ptr_equal(place(f->registry, 101, 1, 50), f->run);
}

static void test_children_older_than_the_root_do_not_belong(void **state)
{
    struct fixture *f = *state;

    registry_set_foster(f->registry, 42, f->run);
    add(f, 100);
    /* read before the root: a member, with its children, until the root's start is known */
    assert_ptr_equal(place(f->registry, 90, 42, 40), f->run);
    assert_ptr_equal(place(f->registry, 91, 90, 55), f->run);
    assert_ptr_equal(place(f->registry, 95, 42, 50), f->run);
    assert_ptr_equal(place(f->registry, 100, 42, 50), f->run);
    assert_null(registry_find(f->registry, 90));
    assert_null(registry_find(f->registry, 91));
    assert_ptr_equal(run_of(f, 95), f->run); /* within the same tick */
    assert_int_equal(f->run->node.processes, 2);
    assert_int_equal(f->run->members, 2);
    /* read after it */
    assert_null(place(f->registry, 92, 42, 49));
    assert_ptr_equal(place(f->registry, 101, 42, 51), f->run);
    /* a late event, then a reading */
    registry_fork(f->registry, 42, 93);
    assert_null(place(f->registry, 93, 42, 30));
    assert_int_equal(f->run->node.processes, 3);
    /* the root has ended; its start time is still known */
    registry_remove(f->registry, 100);
    assert_null(place(f->registry, 94, 42, 49));
}

static void test_a_root_below_an_older_one_stays(void **state)
{
    struct fixture *f = *state;

    registry_set_foster(f->registry, 42, f->run);
    assert_ptr_equal(place(f->registry, 90, 42, 40), f->run);
    registry_fork(f->registry, 90, 100);
    registry_fork(f->registry, 100, 101);
    add(f, 100);
    assert_ptr_equal(place(f->registry, 100, 90, 50), f->run);
    assert_null(registry_find(f->registry, 90));
    assert_ptr_equal(run_of(f, 101), f->run);
    assert_int_equal(f->run->members, 2);
}

static void test_orphans_are_of_the_only_step(void **state)
{
    struct fixture *f = *state;

    registry_set_foster(f->registry, 42, f->run);
    registry_add(f->registry, f->run, 3, 100);
    place(f->registry, 300, 42, 70);
    assert_int_equal(sheet_of(f, 300), 3);
    registry_add(f->registry, f->run, 4, 101);
    place(f->registry, 301, 42, 70);
    assert_int_equal(sheet_of(f, 301), NONE); /* neither of the two steps */
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, jobs_fixture_set_up, jobs_fixture_tear_down)
    const struct CMUnitTest tests[] = {
        T(test_the_foster_parent_gets_the_orphans),
        T(test_unrelated_processes_are_excluded),
        T(test_each_run_has_its_own_foster_parent),
        T(test_foster_parent_identity),
        T(test_a_foster_parent_that_has_ended),
        T(test_foster_parent_with_reused_pid),
        T(test_member_with_expected_start),
        T(test_children_older_than_the_root_do_not_belong),
        T(test_a_root_below_an_older_one_stays),
        T(test_orphans_are_of_the_only_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
