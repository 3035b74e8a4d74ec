#include "unit.h"

#include <string.h>

#include "base/macros.h"
#include "jobs/registry.h"

struct fixture {
    struct registry *registry;
    struct run *run;
};

static int set_up(void **state)
{
    static struct fixture fixture;

    registry_new(&fixture.registry);
    registry_add_run(fixture.registry, "0197-run", "make-7f3a", 3, &fixture.run);
    *state = &fixture;
    return 0;
}

static int tear_down(void **state)
{
    registry_free(((struct fixture *)*state)->registry);
    return 0;
}

static struct run *place(struct registry *registry, pid_t pid, pid_t ppid, uint64_t start)
{
    struct member *member = NULL;
    assert_int_equal(registry_place(registry, pid, ppid, start, &member), 0);
    return member ? member->run : NULL;
}

static void test_children_belong_by_their_parent(void **state)
{
    struct fixture *f = *state;

    registry_add(f->registry, f->run, 100);
    assert_ptr_equal(place(f->registry, 100, 1, 50), f->run);
    assert_ptr_equal(place(f->registry, 101, 100, 51), f->run);
    assert_ptr_equal(place(f->registry, 102, 101, 52), f->run);
    assert_null(place(f->registry, 103, 1, 53));
    assert_int_equal(f->run->processes, 3);
}

static void test_an_orphan_stays_a_member(void **state)
{
    struct fixture *f = *state;

    registry_add(f->registry, f->run, 100);
    place(f->registry, 100, 1, 50);
    place(f->registry, 101, 100, 51);
    registry_remove(f->registry, 100);
    assert_ptr_equal(place(f->registry, 101, 1, 51), f->run);
    assert_int_equal(f->run->processes, 2);
}

static void test_a_reused_pid_is_a_stranger(void **state)
{
    struct fixture *f = *state;

    registry_add(f->registry, f->run, 100);
    place(f->registry, 100, 1, 50);
    assert_null(place(f->registry, 100, 1, 999));
    /* and what it starts is none of ours */
    assert_null(place(f->registry, 101, 100, 1000));
    /* a child cannot be older than its parent */
    registry_add(f->registry, f->run, 200);
    place(f->registry, 200, 1, 500);
    assert_null(place(f->registry, 201, 200, 400));
}

static void test_events_come_before_readings(void **state)
{
    struct fixture *f = *state;

    registry_add(f->registry, f->run, 100);
    registry_fork(f->registry, 100, 101);
    registry_fork(f->registry, 101, 102);
    registry_fork(f->registry, 7, 8); /* others fork too */
    registry_exit(f->registry, 101);
    registry_exit(f->registry, 8);
    assert_int_equal(f->run->processes, 3);
    assert_true(registry_find(f->registry, 101)->has_ended);
    assert_ptr_equal(place(f->registry, 102, 1, 60), f->run);
    assert_null(registry_find(f->registry, 8));
}

static void test_a_process_ends_with_its_last_thread(void **state)
{
    struct fixture *f = *state;

    registry_add(f->registry, f->run, 100);
    registry_thread(f->registry, 100);
    registry_exit(f->registry, 100); /* the leader, say */
    assert_false(registry_find(f->registry, 100)->has_ended);
    registry_exit(f->registry, 100);
    assert_true(registry_find(f->registry, 100)->has_ended);
    registry_exit(f->registry, 100); /* one too many harms nothing */
}

static void test_a_late_event_is_not_counted_twice(void **state)
{
    struct fixture *f = *state;

    registry_add(f->registry, f->run, 100);
    place(f->registry, 100, 1, 50);
    place(f->registry, 101, 100, 51);     /* found by a scan */
    registry_fork(f->registry, 100, 101); /* told of afterwards */
    assert_int_equal(f->run->processes, 2);
    registry_exit(f->registry, 101);
    registry_fork(f->registry, 100, 101); /* the pid again: another process */
    assert_int_equal(f->run->processes, 3);
}

static void test_the_foster_parent_gets_the_orphans(void **state)
{
    struct fixture *f = *state;

    registry_set_foster(f->registry, 42, f->run);
    assert_ptr_equal(place(f->registry, 300, 42, 70), f->run);
    assert_ptr_equal(registry_run_of_reaped(f->registry, 300), f->run);
    assert_int_equal(f->run->processes, 1);
    /* reaped without ever having been seen */
    assert_ptr_equal(registry_run_of_reaped(f->registry, 301), f->run);
    assert_int_equal(f->run->processes, 2);
    /* the same where events have told of all there are: it was dropped, not missed */
    registry_trust_events(f->registry);
    assert_ptr_equal(registry_run_of_reaped(f->registry, 302), f->run);
    assert_int_equal(f->run->processes, 2);
}

static void test_what_is_gone_is_dropped(void **state)
{
    struct fixture *f = *state;
    pid_t pids[8];

    registry_add(f->registry, f->run, 100);
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
    registry_exit(f->registry, 103);
    registry_drop_gone(f->registry);
    assert_int_equal(registry_count(f->registry), 2);
    assert_null(registry_find(f->registry, 103));

    registry_distrust_events(f->registry); /* an exit may have been lost */
    registry_begin(f->registry);
    place(f->registry, 100, 1, 50);
    registry_drop_gone(f->registry);
    assert_int_equal(registry_count(f->registry), 1);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(test_children_belong_by_their_parent),     T(test_an_orphan_stays_a_member),
        T(test_a_reused_pid_is_a_stranger),          T(test_events_come_before_readings),
        T(test_a_process_ends_with_its_last_thread), T(test_a_late_event_is_not_counted_twice),
        T(test_the_foster_parent_gets_the_orphans),  T(test_what_is_gone_is_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
