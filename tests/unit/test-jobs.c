/* Which job a process belongs to: by its parent, by fork and exit events, and no longer when its
 * pid is reused. */
#include "jobs-world.h"

/* ---- readings alone ---- */

static void test_children_belong_by_their_parent(void **state)
{
    struct fixture *f = *state;

    add(f, 100);
    assert_ptr_equal(place(f->registry, 100, 1, 50), f->run);
    assert_ptr_equal(place(f->registry, 101, 100, 51), f->run);
    assert_ptr_equal(place(f->registry, 102, 101, 52), f->run);
    assert_null(place(f->registry, 103, 1, 53));
    assert_int_equal(f->run->node.processes, 3);
    assert_int_equal(f->run->members, 3);
    assert_int_equal(registry_find(f->registry, 102)->ppid, 101);
    assert_int_equal(registry_find(f->registry, 100)->ppid, 1);
}

static void test_an_orphan_stays_a_member(void **state)
{
    struct fixture *f = *state;

    add(f, 100);
    place(f->registry, 100, 1, 50);
    place(f->registry, 101, 100, 51);
    registry_remove(f->registry, 100);
    assert_ptr_equal(place(f->registry, 101, 1, 51), f->run);
    assert_int_equal(f->run->node.processes, 2);
    assert_int_equal(f->run->members, 1);
    /* its forking parent is still known */
    assert_int_equal(registry_find(f->registry, 101)->ppid, 100);
}

static void test_reused_pid_is_no_member(void **state)
{
    struct fixture *f = *state;

    add(f, 100);
    place(f->registry, 100, 1, 50);
    assert_null(place(f->registry, 100, 1, 999));
    assert_int_equal(f->run->members, 0);
    /* its children are no members */
    assert_null(place(f->registry, 101, 100, 1000));
    /* a child cannot be older than its parent */
    add(f, 200);
    place(f->registry, 200, 1, 500);
    assert_null(place(f->registry, 201, 200, 400));
}

static void test_mutual_parents_are_harmless(void **state)
{
    struct fixture *f = *state;
    struct run *other = add_run(f->registry, "other", NULL);

    add(f, 100);
    place(f->registry, 100, 101, 50);
    place(f->registry, 101, 100, 50);
    place(f->registry, 100, 101, 50);
    add(f, 300);
    place(f->registry, 300, 300, 50);
    registry_add(f->registry, other, NONE, 100);
    assert_ptr_equal(run_of(f, 101), other);
    registry_add(f->registry, other, NONE, 300);
    assert_int_equal(other->members, 3);
}

/* ---- events ---- */

static void test_events_come_before_readings(void **state)
{
    struct fixture *f = *state;

    add(f, 100);
    registry_fork(f->registry, 100, 101);
    registry_fork(f->registry, 101, 102);
    registry_fork(f->registry, 7, 8); /* others fork too */
    registry_exit(f->registry, 101, 0);
    registry_exit(f->registry, 8, 0);
    assert_int_equal(f->run->node.processes, 3);
    assert_true(registry_find(f->registry, 101)->has_ended);
    assert_ptr_equal(place(f->registry, 102, 1, 60), f->run); /* a double fork */
    assert_null(registry_find(f->registry, 8));
}

static void test_a_process_ends_with_its_last_thread(void **state)
{
    struct fixture *f = *state;

    add(f, 100);
    registry_thread(f->registry, 100);
    registry_exit(f->registry, 100, 0); /* the leader, say */
    assert_false(registry_find(f->registry, 100)->has_ended);
    assert_false(f->run->root_has_ended);
    registry_exit(f->registry, 100, 3 << 8);
    assert_true(registry_find(f->registry, 100)->has_ended);
    registry_exit(f->registry, 100, 3 << 8); /* one event too many has no effect */
    assert_int_equal(f->run->members, 1);    /* it may still be there as a zombie */
}

static void test_a_late_event_is_not_counted_twice(void **state)
{
    struct fixture *f = *state;

    add(f, 100);
    place(f->registry, 100, 1, 50);
    place(f->registry, 101, 100, 51);     /* found by a scan */
    registry_fork(f->registry, 100, 101); /* a late event */
    assert_int_equal(f->run->node.processes, 2);
    registry_exit(f->registry, 101, 0);
    registry_fork(f->registry, 100, 101); /* the pid again: another process */
    assert_int_equal(f->run->node.processes, 3);
    assert_int_equal(f->run->members, 2);
}

static void test_late_fork_of_registered_process(void **state)
{
    struct fixture *f = *state;
    struct run *outer = add_run(f->registry, "outer", NULL);

    registry_add(f->registry, outer, NONE, 50);
    add(f, 100);
    place(f->registry, 100, 50, 70);
    registry_fork(f->registry, 50, 100); /* how it was born, by a member of another run */
    assert_ptr_equal(run_of(f, 100), f->run);
    assert_int_equal(f->run->node.processes, 1);
    assert_int_equal(registry_find(f->registry, 100)->ppid, 50);
    registry_fork(f->registry, 50, 100); /* its exit was missed: this is another process */
    assert_ptr_equal(run_of(f, 100), outer);
    assert_int_equal(f->run->members, 0);
    assert_int_equal(outer->node.processes, 2);
}

static void test_fork_event_reuses_pid(void **state)
{
    struct fixture *f = *state;

    add(f, 100);
    registry_fork(f->registry, 100, 101); /* never read */
    registry_exit(f->registry, 101, 0);
    registry_fork(f->registry, 7, 101); /* its parent is no member */
    assert_null(registry_find(f->registry, 101));
    assert_null(place(f->registry, 101, 7, 60));
    assert_int_equal(f->run->node.processes, 2);
    assert_int_equal(f->run->members, 1);
}

static void test_end_of_root_is_stored(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(f->run->root_pid, 0);
    add(f, 100);
    registry_fork(f->registry, 9, 100);
    registry_add(f->registry, f->run, 2, 200);
    assert_int_equal(f->run->root_pid, 100);
    registry_fork(f->registry, 100, 101);
    registry_exit(f->registry, 101, 1 << 8);
    registry_exit(f->registry, 200, 1 << 8);
    assert_false(f->run->root_has_ended);
    registry_exit(f->registry, 100, 9);
    assert_true(f->run->root_has_ended);
    assert_int_equal(f->run->root_wait_status, 9);

    /* a later process with its pid is another one */
    registry_fork(f->registry, 200, 100);
    registry_exit(f->registry, 100, 7 << 8);
    assert_int_equal(f->run->root_wait_status, 9);
    registry_remove(f->registry, 100);
    registry_add(f->registry, f->run, NONE, 100);
    registry_exit(f->registry, 100, 7 << 8);
    assert_int_equal(f->run->root_wait_status, 9);
}

static void test_a_root_that_was_found_ends_with_its_last_thread(void **state)
{
    struct fixture *f = *state;

    add(f, 100); /* it has two threads, which is unknown */
    place(f->registry, 100, 1, 50);
    registry_exit(f->registry, 100, 0);
    registry_exit(f->registry, 100, 5 << 8);
    assert_int_equal(f->run->root_wait_status, 5 << 8);
}

static void test_gone_members_are_dropped(void **state)
{
    struct fixture *f = *state;
    pid_t pids[8];

    add(f, 100);
    registry_fork(f->registry, 100, 103);
    registry_fork(f->registry, 100, 102);
    assert_int_equal(registry_pids(f->registry, pids), 3);
    assert_int_equal(pids[0], 100); /* in the order of joining */
    assert_int_equal(pids[1], 103);
    assert_int_equal(pids[2], 102);

    registry_begin(f->registry);
    place(f->registry, 100, 1, 50);
    place(f->registry, 102, 100, 51);
    registry_drop_gone(f->registry);
    assert_int_equal(registry_count(f->registry), 3); /* 103 lives by the events: it is hidden */
    registry_exit(f->registry, 103, 0);
    registry_drop_gone(f->registry);
    assert_int_equal(registry_count(f->registry), 2);
    assert_int_equal(f->run->members, 2);
    assert_null(registry_find(f->registry, 103));

    registry_distrust_events(f->registry); /* an exit may have been lost */
    registry_begin(f->registry);
    place(f->registry, 100, 1, 50);
    registry_drop_gone(f->registry);
    assert_int_equal(registry_count(f->registry), 1);
    assert_int_equal(f->run->members, 1);
    assert_int_equal(f->run->node.processes, 3);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, jobs_fixture_set_up, jobs_fixture_tear_down)
    const struct CMUnitTest tests[] = {
        T(test_children_belong_by_their_parent),
        T(test_an_orphan_stays_a_member),
        T(test_reused_pid_is_no_member),
        T(test_mutual_parents_are_harmless),
        T(test_events_come_before_readings),
        T(test_a_process_ends_with_its_last_thread),
        T(test_a_late_event_is_not_counted_twice),
        T(test_late_fork_of_registered_process),
        T(test_fork_event_reuses_pid),
        T(test_end_of_root_is_stored),
        T(test_a_root_that_was_found_ends_with_its_last_thread),
        T(test_gone_members_are_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
