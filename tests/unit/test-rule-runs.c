/* Runs of rules: their owner, name and figures, and when they end. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd-io.h"
#include "base/macros.h"
#include "engine/engine.h"
#include "engine/rule-runs.h"

/* ---- a tree of files ---- */

static char root[64];
static int root_fd;
static struct registry *registry;
static struct rules *rules;
static struct rule_runs runs;
static struct arena arena;

static const char *batch[] = {"BATCH"};
static struct job_rule rule = {
    .job_id = "batch-{BATCH}", .kind = JOB_RULE_ENV, .names = {.items = batch, .count = 1}};

static int set_up(void **state _unused_)
{
    static const struct job_rule_list list = {.items = &rule, .count = 1};

    strcpy(root, "/tmp/sonde-test-XXXXXX");
    assert_non_null(mkdtemp(root));
    root_fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(registry_new(&registry), 0);
    assert_int_equal(rules_new(&list, &rules), 0);
    rule_runs_init(&runs, registry, root_fd);
    rule_watch_configure(&runs.watch, rules);
    return root_fd < 0;
}

static int tear_down(void **state _unused_)
{
    char command[128];

    rule_runs_done(&runs);
    rules_free(rules);
    registry_free(registry);
    arena_done(&arena);
    close(root_fd);
    snprintf(command, sizeof(command), "rm -rf '%s'", root);
    return system(command);
}

static void put(pid_t pid, const char *name, const char *bytes, size_t length)
{
    char path[128];

    snprintf(path, sizeof(path), "%s/%d", root, (int)pid);
    mkdir(path, 0700);
    snprintf(path, sizeof(path), "%s/%d/%s", root, (int)pid, name);
    _cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, bytes, length), 0);
}

/* A process of that user, with BATCH=7 in its environment. */
static void put_process(pid_t pid, int uid)
{
    static const char command[] = "make\0test", environment[] = "BATCH=7";
    char status[64], cwd[128];

    int length = snprintf(status, sizeof(status), "Uid:\t%d\t%d\t%d\t%d\n", uid, uid, uid, uid);
    put(pid, "status", status, (size_t)length);
    put(pid, "cmdline", command, sizeof(command));
    put(pid, "environ", environment, sizeof(environment));
    snprintf(cwd, sizeof(cwd), "%s/%d/cwd", root, (int)pid);
    assert_int_equal(symlink("/home/u/parser", cwd), 0);
}

/* The run of a process; NULL: none. */
static struct run *find(pid_t pid, struct rule_match *found)
{
    rule_runs_begin(&runs);
    int r = rule_runs_find(&runs, pid, 1, &arena, found);
    assert_in_range(r, 0, 1);
    if (r == 1)
        assert_int_equal(registry_add(registry, found->run, INT_UNKNOWN, pid), 0);
    return r == 1 ? found->run : NULL;
}

static struct run *add_registered(const char *run_id, const char *job_id, int64_t uid)
{
    const struct run_options options = {.run_id = run_id, .job_id = job_id, .uid = uid};
    struct run *run;

    assert_int_equal(registry_add_run(registry, &options, &run), 0);
    return run;
}

/* ---- tests ---- */

static void test_first_process_names_the_command(void **state _unused_)
{
    struct rule_match found;

    put_process(100, 1000);
    put_process(101, 1000);
    struct run *run = find(100, &found);
    assert_non_null(run);
    assert_true(found.is_new);
    assert_string_equal(run->job_id, "batch-7");
    assert_int_equal(run->uid, 1000);
    assert_int_equal(run->origin, RUN_BY_RULE);
    assert_string_equal(found.facts.command, "make test");
    assert_string_equal(found.facts.cwd, "/home/u/parser");
    assert_ptr_equal(find(101, &found), run);
    assert_false(found.is_new);
    assert_int_equal(registry_run_count(registry), 1);
}

static void test_users_have_separate_runs(void **state _unused_)
{
    struct rule_match found;

    put_process(100, 1000);
    put_process(101, 1001);
    put_process(102, 1000);
    struct run *own = find(100, &found), *other = find(101, &found);
    assert_ptr_not_equal(own, other);
    assert_string_equal(other->job_id, "batch-7");
    assert_int_equal(other->uid, 1001);
    assert_ptr_equal(find(102, &found), own);
}

/* A registered run keeps its name; a run of another user does not matter. */
static void test_name_in_use_gets_a_number(void **state _unused_)
{
    struct rule_match found;
    struct run *registered = add_registered("registered", "batch-7", 1000);

    add_registered("other", "batch-7-2", 1001);
    put_process(100, 1000);
    put_process(101, 1000);
    struct run *run = find(100, &found);
    assert_ptr_not_equal(run, registered);
    assert_string_equal(run->job_id, "batch-7-2");
    assert_ptr_equal(find(101, &found), run);
    assert_int_equal(registry_run_count(registry), 3);
}

static void test_foster_parents_belong_to_no_run(void **state _unused_)
{
    struct rule_match found;

    put_process(100, 1000);
    registry_set_foster(registry, 100, add_registered("registered", "x", 1000));
    assert_true(registry_is_foster(registry, 100));
    assert_null(find(100, &found));
    assert_int_equal(registry_run_count(registry), 1);
}

static void test_young_process_is_matched_later(void **state _unused_)
{
    struct rule_match found;

    put_process(100, 1000);
    uint64_t now_ticks = clock_boot_ns() / runs.ns_per_tick;
    rule_runs_begin(&runs);
    assert_int_equal(rule_runs_find(&runs, 100, now_ticks, &arena, &found), 0);
    assert_int_equal(rule_runs_find(&runs, 100, 1, &arena, &found), 1);
}

static void end_it(void *context, struct run *run)
{
    unsigned *count = context;

    (*count)++;
    registry_end_run(registry, run);
}

static void test_run_ends_some_time_after_its_last_process(void **state _unused_)
{
    const uint64_t linger_ns = 30 * NS_PER_SEC;
    struct rule_match found;
    unsigned ended = 0;

    runs.linger_ns = linger_ns;
    add_registered("registered", "x", 1000);
    put_process(100, 1000);
    put_process(101, 1001);
    find(100, &found)->living = 1;
    struct run *empty = find(101, &found);
    rule_runs_end(&runs, 1000, end_it, &ended);
    rule_runs_end(&runs, 1000 + linger_ns - 1, end_it, &ended);
    assert_int_equal(ended, 0);
    empty->living = 1; /* another process joined */
    rule_runs_end(&runs, 1000 + linger_ns, end_it, &ended);
    empty->living = 0;
    rule_runs_end(&runs, 2000 + linger_ns, end_it, &ended);
    assert_int_equal(ended, 0);
    rule_runs_end(&runs, 2000 + 2 * linger_ns, end_it, &ended);
    assert_int_equal(ended, 1);
    assert_int_equal(registry_run_count(registry), 2);
}

static void test_run_ended_with_its_last_process(void **state _unused_)
{
    struct rule_match found;
    unsigned ended = 0;

    runs.linger_ns = 1000;
    put_process(100, 1000);
    struct run *run = find(100, &found);
    run->living = 1;
    run->last_end_ns = 900; /* of another process */
    rule_runs_end(&runs, 1000, end_it, &ended);
    run->living = 0;
    run->last_end_ns = 1400;
    rule_runs_end(&runs, 2000, end_it, &ended);
    assert_int_equal(run->empty_since_ns, 1400);

    run->living = 1;
    rule_runs_end(&runs, 2200, end_it, &ended);
    run->living = 0; /* its end was not reported */
    rule_runs_end(&runs, 2300, end_it, &ended);
    assert_int_equal(run->empty_since_ns, 2300);
    assert_int_equal(ended, 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(test_first_process_names_the_command), T(test_users_have_separate_runs),
        T(test_name_in_use_gets_a_number),       T(test_foster_parents_belong_to_no_run),
        T(test_young_process_is_matched_later),  T(test_run_ends_some_time_after_its_last_process),
        T(test_run_ended_with_its_last_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
