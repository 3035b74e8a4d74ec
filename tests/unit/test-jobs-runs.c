/* Runs and their steps: several at once, nested ones, processes that move between them, and ten
 * thousand of them. */
#include "jobs-world.h"

#include <errno.h>
#include <stdio.h>

/* ---- runs and steps ---- */

static void test_several_runs_at_once(void **state)
{
    struct fixture *f = *state;
    struct run *second = add_run(f->registry, "second", NULL);

    add(f, 100);
    registry_add(f->registry, second, 1, 200);
    registry_fork(f->registry, 100, 101);
    registry_fork(f->registry, 200, 201);
    assert_ptr_equal(run_of(f, 101), f->run);
    assert_ptr_equal(run_of(f, 201), second);
    assert_int_equal(sheet_of(f, 201), 1);
    assert_int_equal(registry_run_count(f->registry), 2);
    assert_ptr_equal(registry_next_run(f->registry, NULL), f->run);
    assert_ptr_equal(registry_next_run(f->registry, f->run), second);
    assert_null(registry_next_run(f->registry, second));
    assert_ptr_equal(registry_find_run(f->registry, "0197-second"), second);
    assert_null(registry_find_run(f->registry, "second"));
    assert_int_equal(second->uid, 1000);
    assert_false(int_is_known(second->total_sheets));
}

static void test_a_job_is_found_by_its_latest_run(void **state)
{
    struct fixture *f = *state;
    struct run *later;
    const struct run_options options = {.run_id = "0197-later", .job_id = "make-7f3a"};

    assert_int_equal(registry_add_run(f->registry, &options, &later), 0);
    assert_ptr_equal(registry_find_job(f->registry, "make-7f3a", NONE), later);
    registry_end_run(f->registry, later);
    assert_ptr_equal(registry_find_job(f->registry, "make-7f3a", NONE), f->run);

    assert_int_equal(registry_add_run(f->registry, &options, &later), 0);
    registry_end_run(f->registry, f->run); /* the earlier one first */
    assert_ptr_equal(registry_find_job(f->registry, "make-7f3a", NONE), later);
    registry_end_run(f->registry, later);
    assert_null(registry_find_job(f->registry, "make-7f3a", NONE));
    assert_null(registry_find_run(f->registry, "0197-later"));
    assert_int_equal(registry_run_count(f->registry), 0);
}

static void test_names_are_each_users_own(void **state)
{
    struct fixture *f = *state;
    struct run *other, *second;
    char name[JOB_ID_NUMBERED_MAX_BYTES];
    const struct run_options others = {.run_id = "0197-other", .job_id = "make-7f3a", .uid = 1001};

    registry_find_free_name(f->registry, "make-7f3a", 1001, false, name);
    assert_string_equal(name, "make-7f3a");
    assert_int_equal(registry_add_run(f->registry, &others, &other), 0);
    assert_ptr_equal(registry_find_job(f->registry, "make-7f3a", 1000), f->run);
    assert_ptr_equal(registry_find_job(f->registry, "make-7f3a", 1001), other);
    assert_ptr_equal(registry_find_job(f->registry, "make-7f3a", NONE), other); /* the latest */
    assert_null(registry_find_job(f->registry, "make-7f3a", 0));

    registry_find_free_name(f->registry, "make-7f3a", 1000, false, name);
    assert_string_equal(name, "make-7f3a-2");
    second = add_run(f->registry, name, NULL);
    registry_find_free_name(f->registry, "make-7f3a", 1000, false, name);
    assert_string_equal(name, "make-7f3a-3");
    registry_find_free_name(f->registry, "make-7f3a", 1001, false, name);
    assert_string_equal(name, "make-7f3a-2");
    registry_end_run(f->registry, f->run);
    registry_find_free_name(f->registry, "make-7f3a", 1000, false, name);
    assert_string_equal(name, "make-7f3a");
    assert_ptr_equal(registry_find_job(f->registry, "make-7f3a-2", 1000), second);
    assert_ptr_equal(registry_find_job(f->registry, "make-7f3a", NONE), other);
}

static void test_a_run_ends_before_its_processes(void **state)
{
    struct fixture *f = *state;
    struct run *other = add_run(f->registry, "other", NULL);

    registry_add(f->registry, other, NONE, 200);
    registry_fork(f->registry, 200, 201);
    add(f, 100);
    registry_end_run(f->registry, other);
    assert_int_equal(registry_count(f->registry), 1);
    assert_null(registry_find(f->registry, 201));
    registry_fork(f->registry, 201, 202); /* and their children belong to no run */
    assert_null(registry_find(f->registry, 202));
    assert_null(place(f->registry, 200, 1, 60));
    registry_exit(f->registry, 200, 0);
}

static void test_a_nested_run_owns_its_processes(void **state)
{
    struct fixture *f = *state;
    struct run *inner = add_run(f->registry, "inner", f->run);

    add(f, 100);
    registry_fork(f->registry, 100, 110); /* sonde run, in it */
    registry_fork(f->registry, 110, 111); /* its command, */
    registry_fork(f->registry, 111, 112); /* which was quick */
    assert_int_equal(f->run->node.processes, 4);
    registry_add(f->registry, inner, NONE, 111);
    registry_set_foster(f->registry, 110, inner);
    assert_ptr_equal(run_of(f, 110), f->run);
    assert_ptr_equal(run_of(f, 111), inner);
    assert_ptr_equal(run_of(f, 112), inner);
    assert_int_equal(f->run->node.processes, 4); /* they still count for the outer run */
    assert_int_equal(inner->node.processes, 2);

    registry_fork(f->registry, 110, 113); /* a sibling that the command made (CLONE_PARENT) */
    assert_ptr_equal(run_of(f, 113), inner);
    registry_fork(f->registry, 112, 114);
    registry_exit(f->registry, 112, 0);
    registry_remove(f->registry, 112);
    assert_ptr_equal(place(f->registry, 114, 110, 90),
                     inner); /* an orphan, inherited by `sonde run` */
    assert_ptr_equal(place(f->registry, 115, 110, 91), inner); /* without an event */
    registry_fork(f->registry, 100, 116);
    assert_ptr_equal(run_of(f, 116), f->run);
    assert_true(run_is_within(inner, f->run));
    assert_true(run_is_within(inner, inner));
    assert_false(run_is_within(f->run, inner));
    assert_int_equal(f->run->members, 3);
    assert_int_equal(inner->members, 4);

    registry_end_run(f->registry, inner);
    registry_fork(f->registry, 110, 117); /* its parent is no foster parent any more */
    assert_ptr_equal(run_of(f, 117), f->run);
}

static void test_a_parent_run_ends_before_its_child(void **state)
{
    struct fixture *f = *state;
    struct run *middle = add_run(f->registry, "middle", f->run);
    struct run *inner = add_run(f->registry, "inner", middle);

    registry_add(f->registry, middle, NONE, 110); /* the inner one's sonde run */
    registry_fork(f->registry, 110, 111);
    registry_add(f->registry, inner, NONE, 111);
    registry_set_foster(f->registry, 110, inner);
    registry_end_run(f->registry, middle);
    assert_ptr_equal(inner->parent, f->run);
    assert_null(registry_find(f->registry, 110));
    assert_ptr_equal(run_of(f, 111), inner);
    registry_fork(f->registry, 111, 112);
    assert_ptr_equal(run_of(f, 112), inner);
    assert_ptr_equal(place(f->registry, 113, 110, 90), inner); /* the inner run continues */
    registry_end_run(f->registry, f->run);
    assert_null(inner->parent);
    registry_end_run(f->registry, inner);
    assert_int_equal(registry_count(f->registry), 0);
    f->run = NULL;
}

static void test_subtree_moves_to_run(void **state)
{
    struct fixture *f = *state;
    struct run *other = add_run(f->registry, "other", NULL);
    struct run *third = add_run(f->registry, "third", NULL);
    pid_t pids[16];

    add(f, 100);
    registry_fork(f->registry, 100, 101);
    registry_fork(f->registry, 100, 105);
    registry_fork(f->registry, 101, 102);
    registry_fork(f->registry, 102, 103);
    registry_fork(f->registry, 101, 104);
    registry_add(f->registry, third, NONE, 104); /* it was registered itself */
    registry_fork(f->registry, 104, 106);
    registry_remove(f->registry, 102); /* its child is still one of 101's */

    registry_add(f->registry, other, 7, 101);
    assert_ptr_equal(run_of(f, 100), f->run);
    assert_ptr_equal(run_of(f, 105), f->run);
    assert_ptr_equal(run_of(f, 101), other);
    assert_ptr_equal(run_of(f, 103), other);
    assert_int_equal(sheet_of(f, 103), 7);
    assert_ptr_equal(run_of(f, 104), third);
    assert_ptr_equal(run_of(f, 106), third);
    assert_int_equal(f->run->node.processes, 3); /* 102 has ended and stays counted */
    assert_int_equal(f->run->members, 2);
    assert_int_equal(other->node.processes, 2);
    assert_int_equal(other->members, 2);
    assert_int_equal(third->members, 2);
    assert_int_equal(other->root_pid, 101);

    /* parents still stand before their children */
    assert_int_equal(registry_pids(f->registry, pids), 6);
    const pid_t order[] = {100, 101, 105, 103, 104, 106};
    assert_memory_equal(pids, order, sizeof(order));
    size_t count = 0;
    for (struct member *at = NULL; (at = registry_next(f->registry, at));)
        assert_int_equal(at->pid, order[count++]);

    registry_fork(f->registry, 103, 107);
    assert_ptr_equal(run_of(f, 107), other);
}

static void test_subtree_moves_to_step(void **state)
{
    struct fixture *f = *state;

    add(f, 100);
    registry_fork(f->registry, 100, 101);
    registry_fork(f->registry, 101, 102);
    registry_add(f->registry, f->run, 1, 101);
    registry_fork(f->registry, 102, 103);
    assert_int_equal(sheet_of(f, 100), NONE);
    assert_int_equal(sheet_of(f, 102), 1);
    assert_int_equal(sheet_of(f, 103), 1);
    registry_add(f->registry, f->run, 2, 103); /* a step within a step */
    registry_add(f->registry, f->run, 5, 100);
    assert_int_equal(sheet_of(f, 100), 5);
    assert_int_equal(sheet_of(f, 102), 1);
    assert_int_equal(sheet_of(f, 103), 2);
    assert_int_equal(f->run->node.processes, 4);
    assert_int_equal(f->run->members, 4);
    registry_add(f->registry, f->run, 5, 100); /* again: nothing new */
    assert_int_equal(f->run->node.processes, 4);
}

static void test_registering_reused_pid(void **state)
{
    struct fixture *f = *state;
    struct run *other = add_run(f->registry, "other", NULL);

    add(f, 100);
    registry_fork(f->registry, 100, 101);
    registry_fork(f->registry, 101, 102);
    registry_exit(f->registry, 101, 0);
    registry_add(f->registry, other, NONE, 101); /* a reused pid, before its fork event */
    assert_ptr_equal(run_of(f, 101), other);
    assert_ptr_equal(run_of(f, 102), f->run);
    assert_int_equal(f->run->node.processes, 3);
    registry_fork(f->registry, 7, 101);
    assert_ptr_equal(run_of(f, 101), other);
    assert_int_equal(other->node.processes, 1);
}

static void test_members_are_adopted_by_identity(void **state)
{
    struct fixture *f = *state;

    f->run->node.processes = 9; /* as stored */
    registry_adopt(f->registry, f->run, 3, 100, 50);
    registry_adopt(f->registry, f->run, 3, 101, 60);
    registry_adopt(f->registry, f->run, 3, 102, 70);
    assert_int_equal(f->run->node.processes, 9);
    assert_int_equal(f->run->members, 3);
    registry_begin(f->registry);
    assert_ptr_equal(place(f->registry, 100, 1, 50), f->run);
    assert_null(place(f->registry, 101, 1, 9999)); /* another process has the pid */
    registry_drop_gone(f->registry);               /* and 102 is not there */
    assert_int_equal(f->run->members, 1);
    assert_int_equal(sheet_of(f, 100), 3);
    /* their children belong to them, and a later registered process is not the root */
    assert_ptr_equal(place(f->registry, 103, 100, 80), f->run);
    assert_int_equal(f->run->node.processes, 10);
    registry_add(f->registry, f->run, 4, 200);
    assert_int_equal(f->run->root_pid, 0);
    /* the oldest adopted process takes the place of the root */
    registry_set_foster(f->registry, 42, f->run);
    assert_null(place(f->registry, 30, 42, 49));
    assert_ptr_equal(place(f->registry, 31, 42, 50), f->run);
}

static void test_adopted_processes_are_a_tree(void **state)
{
    struct fixture *f = *state;
    struct run *other = add_run(f->registry, "other", NULL);

    registry_adopt(f->registry, f->run, NONE, 100, 50);
    registry_adopt(f->registry, f->run, NONE, 101, 60);
    place(f->registry, 100, 1, 50);
    place(f->registry, 101, 100, 60);
    registry_add(f->registry, other, NONE, 100);
    assert_ptr_equal(run_of(f, 101), other);
}

/* After a loss of events, only the kernel's tag identifies the run of a process. */
static void test_tagged_process_is_placed_by_its_tag(void **state)
{
    struct fixture *f = *state;
    struct run *other = add_run(f->registry, "other", NULL);
    struct member *member = NULL;

    f->run->node.tag = 5;
    other->node.tag = 6;
    assert_int_equal(registry_place_tagged(f->registry, 6, 200, 1, 1000, &member), 0);
    assert_non_null(member);
    assert_ptr_equal(member->run, other);
    assert_int_equal(member->tag, 6);
    assert_true(member->was_found && member->was_placed);
    assert_ptr_equal(place(f->registry, 201, 200, 1001), other); /* its children follow */

    /* No tag, a tag of no run, and the tag of a member. */
    assert_int_equal(registry_place_tagged(f->registry, 0, 300, 1, 1000, &member), 0);
    assert_null(member);
    assert_int_equal(registry_place_tagged(f->registry, 7, 300, 1, 1000, &member), 0);
    assert_null(member);
    assert_null(registry_find(f->registry, 300));
    assert_int_equal(registry_place_tagged(f->registry, 5, 200, 1, 1000, &member), 0);
    assert_null(member);
    assert_ptr_equal(run_of(f, 200), other);
}

static void test_steps(void **state)
{
    struct fixture *f = *state;
    struct run *run = f->run;

    assert_int_equal(registry_end_sheet(run, 1), 0);
    assert_int_equal(registry_begin_sheet(f->registry, run, 1, 100), 0);
    assert_int_equal(registry_begin_sheet(f->registry, run, 2, 0), 0);
    assert_int_equal(registry_begin_sheet(f->registry, run, 3, 300), 0);
    assert_int_equal(registry_begin_sheet(f->registry, run, 2, 200), 0); /* again */
    assert_int_equal(run->sheets.count, 3);
    assert_int_equal(run_find_sheet(run, 2)->pid, 200);
    assert_int_equal(registry_end_sheet(run, 1), 1);
    assert_null(run_find_sheet(run, 1));
    assert_int_equal(run->active_sheets, 2);
    assert_int_equal(registry_end_sheet(run, 1), 0);
    for (int i = 0; i < RUN_SHEETS_MAX - 2; i++)
        assert_int_equal(registry_begin_sheet(f->registry, run, 10 + i, 0), 0);
    assert_int_equal(registry_begin_sheet(f->registry, run, 1, 0), -E2BIG);
    assert_int_equal(registry_begin_sheet(f->registry, run, 2, 0), 0);

    for (int i = 0; i < RUN_SHEETS_MAX - 2; i++)
        assert_int_equal(registry_end_sheet(run, 10 + i), 1);
    assert_null(registry_find_excess_sheet(run));
    assert_int_equal(registry_end_sheet(run, 2), 1);
    assert_int_equal(registry_end_sheet(run, 3), 1);
    struct run_sheet *excess = registry_find_excess_sheet(run);
    assert_int_equal(excess->sheet_num, 1);
    registry_forget_sheet(run, excess);
    assert_null(registry_find_excess_sheet(run));
}

/* A process counts for the step that was active when it joined, and for the run. */
static void test_nodes_of_steps(void **state)
{
    struct fixture *f = *state;
    struct registry *registry = f->registry;
    struct run *run = f->run, *inner;

    assert_int_equal(registry_add(registry, run, INT_UNKNOWN, 100), 0);
    assert_int_equal(registry_begin_sheet(registry, run, 1, 101), 0);
    struct run_node *step = &run_find_sheet(run, 1)->node;
    assert_ptr_equal(step->outer, &run->node);
    assert_int_not_equal(step->tag, run->node.tag);

    registry_fork(registry, 100, 101);
    registry_fork(registry, 101, 102);
    assert_ptr_equal(registry_find(registry, 102)->node, &run->node);
    assert_int_equal(registry_add(registry, run, 1, 101), 0);
    registry_fork(registry, 102, 103);
    assert_ptr_equal(registry_find(registry, 102)->node, step);
    assert_ptr_equal(registry_find(registry, 103)->node, step);
    assert_int_equal(step->processes, 3);
    assert_int_equal(run->node.processes, 4);

    const struct run_options options = {
        .run_id = "i", .job_id = "inner", .parent = run, .outer = step};
    assert_int_equal(registry_add_run(registry, &options, &inner), 0);
    assert_int_equal(registry_add(registry, inner, INT_UNKNOWN, 103), 0);
    registry_fork(registry, 103, 104);
    assert_int_equal(inner->node.processes, 2);
    assert_int_equal(step->processes, 4);
    assert_int_equal(run->node.processes, 5);

    assert_int_equal(registry_end_sheet(run, 1), 1);
    assert_ptr_equal(registry_find(registry, 102)->node, &run->node);
    assert_ptr_equal(inner->node.outer, &run->node);
    registry_fork(registry, 104, 105);
    registry_fork(registry, 102, 106);
    assert_int_equal(step->processes, 4);
    assert_int_equal(run->node.processes, 7);

    struct member *member;
    assert_int_equal(registry_begin_sheet(registry, run, 1, 0), 0); /* again */
    assert_ptr_equal(&run_find_sheet(run, 1)->node, step);
    assert_int_equal(run_find_sheet(run, 1)->starts, 2);
    assert_int_equal(registry_place_tagged(registry, step->tag, 200, 1, 1000, &member), 0);
    assert_ptr_equal(member->node, step);
    assert_int_equal(member->sheet_num, 1);
}

/* A run that turns out to have been started in another one counts there, too. */
static void test_processes_of_a_late_parent(void **state)
{
    struct fixture *f = *state;
    struct run *inner;

    assert_int_equal(registry_add_run(f->registry,
                                      &(struct run_options){.run_id = "i", .job_id = "inner"},
                                      &inner),
                     0);
    assert_int_equal(registry_add(f->registry, inner, INT_UNKNOWN, 200), 0);
    assert_int_equal(registry_add(f->registry, f->run, INT_UNKNOWN, 100), 0);
    registry_set_parent(inner, &f->run->node);
    registry_fork(f->registry, 200, 201);
    assert_int_equal(inner->node.processes, 2);
    assert_int_equal(f->run->node.processes, 3);
}

/* ---- many ---- */

#define RUNS        10000
#define MEMBERS_PER 10

/* All operations on ten thousand runs. An operation that searched all runs would take minutes. */
static void test_many_runs(void **state)
{
    struct fixture *f = *state;
    static struct run *runs[RUNS];
    double started = cpu_seconds();
    char name[32];

    add(f, 1);
    for (int i = 0; i < RUNS; i++) {
        pid_t root = 1000 + i * MEMBERS_PER;
        snprintf(name, sizeof(name), "job-%d", i);
        registry_fork(f->registry, 1, root);
        for (int j = 1; j < MEMBERS_PER; j++)
            registry_fork(f->registry, root + j - 1, root + j);
        runs[i] = add_run(f->registry, name, f->run);
        registry_add(f->registry, runs[i], 1, root); /* all ten move */
        registry_set_foster(f->registry, root + 1, runs[i]);
    }
    assert_int_equal(f->run->members, 1);
    assert_int_equal(registry_count(f->registry), RUNS * MEMBERS_PER + 1);
    for (int i = 0; i < RUNS; i++) {
        snprintf(name, sizeof(name), "0197-job-%d", i);
        assert_ptr_equal(registry_find_run(f->registry, name), runs[i]);
        assert_ptr_equal(registry_find_job(f->registry, name + 5, 1000), runs[i]);
    }
    registry_begin(f->registry);
    for (int i = 0; i < RUNS * MEMBERS_PER; i++)
        assert_non_null(place(f->registry, 1000 + i, 999 + i, 100));
    size_t count = 0;
    for (struct member *at = NULL; (at = registry_next(f->registry, at));)
        count++;
    assert_int_equal(count, RUNS * MEMBERS_PER + 1);
    for (int i = 0; i < RUNS; i++) {
        assert_int_equal(runs[i]->members, MEMBERS_PER);
        registry_end_run(f->registry, runs[i]);
    }
    assert_int_equal(registry_count(f->registry), 1);
    assert_true(cpu_seconds() - started < 20); /* 0.1 s, and ten times that with sanitizers */
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, jobs_fixture_set_up, jobs_fixture_tear_down)
    const struct CMUnitTest tests[] = {
        T(test_several_runs_at_once),
        T(test_a_job_is_found_by_its_latest_run),
        T(test_names_are_each_users_own),
        T(test_a_run_ends_before_its_processes),
        T(test_a_nested_run_owns_its_processes),
        T(test_a_parent_run_ends_before_its_child),
        T(test_subtree_moves_to_run),
        T(test_subtree_moves_to_step),
        T(test_registering_reused_pid),
        T(test_members_are_adopted_by_identity),
        T(test_adopted_processes_are_a_tree),
        T(test_tagged_process_is_placed_by_its_tag),
        T(test_steps),
        T(test_nodes_of_steps),
        T(test_processes_of_a_late_parent),
        T(test_many_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
