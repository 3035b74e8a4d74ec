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

static size_t ends;

static void on_member(void *context _unused_, struct member *member _unused_,
                      const struct lifecycle_event *event, double timestamp _unused_)
{
    ends += event->kind == LIFECYCLE_EXIT;
}

static void nap(struct lifecycle_feed *feed)
{
    nanosleep(&(struct timespec){.tv_nsec = (long)NS_PER_MSEC}, NULL);
    lifecycle_feed_drain(feed);
}

/* A process that was on its way out when it was covered: the kernel's programs have no tag of it,
 * and it takes longer than others. */
static void test_end_that_takes_long(void **state _unused_)
{
    const struct run_options options = {.run_id = "r", .job_id = "j"};
    struct lifecycle_feed_options feed_options = {.on_member = on_member};
    struct lifecycle_source source = {0};
    struct lifecycle_feed *feed;
    struct run *run;
    uv_loop_t loop;
    int gate[2];

    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(registry_new(&feed_options.registry), 0);
    assert_int_equal(registry_add_run(feed_options.registry, &options, &run), 0);
    if (connector_open(&source.connector) < 0)
        skip();
    assert_int_equal(lifecycle_feed_start(&loop, &source, &feed_options, &feed), 0);
    assert_int_equal(pipe(gate), 0);
    pid_t pid = fork();
    if (pid == 0) {
        char byte;
        close(gate[1]);
        _exit((int)read(gate[0], &byte, 1));
    }
    assert_int_equal(registry_add(feed_options.registry, run, INT_UNKNOWN, pid), 0);
    lifecycle_feed_drain(feed);
    assert_int_equal(lifecycle_feed_use_kernel(feed, probe), 0);
    struct member *member = registry_find(feed_options.registry, pid);
    member->is_covered = member->is_counted = true;

    uint64_t until_ns = clock_mono_ns() + 1200 * NS_PER_MSEC; /* longer than the others take */
    while (clock_mono_ns() < until_ns)
        nap(feed);
    assert_int_equal(ends, 0);
    close(gate[1]);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    for (int i = 0; i < 30000 && !ends; i++)
        nap(feed);
    assert_int_equal(ends, 1);
    assert_false(lifecycle_feed_has_lost(feed));

    close(gate[0]);
    lifecycle_feed_close(feed);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    registry_free(feed_options.registry);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_end_that_takes_long)};

    if (!kernel_world_is_allowed())
        return 0;
    return cmocka_run_group_tests(tests, kernel_world_set_up, kernel_world_tear_down);
}
