/* The feed of events with the real kernel: ends that only the connector reports, after the kernel's
 * own programs have taken over from it. */
#include "unit.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"
#include "engine/lifecycle-feed.h"
#include "kernel-world.h"
#include "model/field.h"

/* The pids of the ends that were reported, in their order. */
static pid_t ends[8];
static size_t end_count;

static void on_member(void *context _unused_, struct member *member,
                      const struct lifecycle_event *event, double timestamp _unused_)
{
    if (event->kind != LIFECYCLE_EXIT)
        return;
    assert_true(end_count < ARRAY_SIZE(ends));
    ends[end_count++] = member->pid;
}

static struct world {
    uv_loop_t loop;
    struct registry *registry;
    struct run *run;
    struct lifecycle_feed *feed;
    int gate[2]; /* a child lives until its writing end is closed */
} world;

/* A feed by the connector, and a run. */
static int set_up_with(uint64_t former_ns)
{
    const struct run_options options = {.run_id = "r", .job_id = "j"};
    struct lifecycle_feed_options feed_options = {.on_member = on_member, .former_ns = former_ns};
    struct lifecycle_source source = {0};

    world = (struct world){0};
    end_count = 0;
    assert_int_equal(uv_loop_init(&world.loop), 0);
    assert_int_equal(registry_new(&world.registry), 0);
    assert_int_equal(registry_add_run(world.registry, &options, &world.run), 0);
    assert_int_equal(pipe(world.gate), 0);
    if (connector_open(&source.connector) < 0)
        skip();
    feed_options.registry = world.registry;
    assert_int_equal(lifecycle_feed_start(&world.loop, &source, &feed_options, &world.feed), 0);
    return 0;
}

static int set_up(void **state _unused_)
{
    return set_up_with(0);
}

/* A process takes longer than others as soon as the kernel's programs have taken over. */
static int set_up_impatient(void **state _unused_)
{
    return set_up_with(1);
}

static int tear_down(void **state _unused_)
{
    close(world.gate[0]);
    lifecycle_feed_close(world.feed);
    uv_run(&world.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&world.loop), 0);
    registry_free(world.registry);
    return 0;
}

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = (long)NS_PER_MSEC}, NULL);
    lifecycle_feed_drain(world.feed);
}

static void await_ends(size_t count)
{
    for (int i = 0; i < 30000 && end_count < count; i++)
        nap();
    assert_int_equal(end_count, count);
    assert_false(lifecycle_feed_has_lost(world.feed));
}

/* In a child: returns when the gate opens. */
static void await_gate(void)
{
    char byte;

    close(world.gate[1]);
    (void)!read(world.gate[0], &byte, 1);
}

/* A process that was on its way out when it was covered: the kernel's programs have no tag of it,
 * and it takes longer than others. */
static void test_end_that_takes_long(void **state _unused_)
{
    pid_t pid = fork();
    if (pid == 0) {
        await_gate();
        _exit(0);
    }
    assert_int_equal(registry_add(world.registry, world.run, INT_UNKNOWN, pid), 0);
    lifecycle_feed_drain(world.feed);
    assert_int_equal(lifecycle_feed_use_kernel(world.feed, probe), 0);
    struct member *member = registry_find(world.registry, pid);
    member->is_covered = member->is_counted = true;

    nap(); /* others would have ended: the connector is kept only for this one */
    assert_int_equal(end_count, 0);
    close(world.gate[1]);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    await_ends(1);
}

/* The kernel's programs report the end of the parent, and only the connector that of its child,
 * which the parent has waited for: each is reported once, in any order. */
static void test_ends_from_two_sources(void **state _unused_)
{
    int born[2];
    pid_t child;

    assert_int_equal(pipe(born), 0);
    pid_t parent = fork();
    if (parent == 0) {
        child = fork();
        if (child == 0) {
            await_gate();
            _exit(3);
        }
        (void)!write(born[1], &child, sizeof(child));
        close(world.gate[1]);
        waitpid(child, NULL, 0);
        _exit(3);
    }
    assert_int_equal(registry_add(world.registry, world.run, INT_UNKNOWN, parent), 0);
    assert_int_equal(read(born[0], &child, sizeof(child)), sizeof(child));
    lifecycle_feed_drain(world.feed);
    assert_non_null(registry_find(world.registry, child));
    assert_int_equal(kernel_probe_tag(probe, parent, world.run->tag), 0);
    assert_int_equal(lifecycle_feed_use_kernel(world.feed, probe), 0);
    registry_find(world.registry, parent)->is_covered = true;

    close(world.gate[1]);
    assert_int_equal(waitpid(parent, NULL, 0), parent);
    await_ends(2);
    assert_true((ends[0] == child && ends[1] == parent) || (ends[0] == parent && ends[1] == child));
    nap();
    assert_int_equal(end_count, 2);
    close(born[0]);
    close(born[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_end_that_takes_long, set_up_impatient, tear_down),
        cmocka_unit_test_setup_teardown(test_ends_from_two_sources, set_up, tear_down),
    };

    if (!kernel_world_is_allowed())
        return 0;
    return cmocka_run_group_tests(tests, kernel_world_set_up, kernel_world_tear_down);
}
