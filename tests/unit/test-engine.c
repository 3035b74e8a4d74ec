/* The collection loop with real processes: its reports when events of the kernel are missing. */
#include "unit.h"

#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/engine.h"

static int64_t lost_ends;
static size_t gap_count;

static void on_tick(void *context _unused_, struct tick_box *box)
{
    for (size_t i = 0; i < box->tick.gaps.count; i++)
        if (box->tick.gaps.items[i].kind == GAP_EVENTS) {
            gap_count++;
            lost_ends = box->tick.gaps.items[i].lost;
        }
    tick_box_free(box);
}

/* A member that ended before events could be received is waited for, and then counted once. */
static void test_end_that_is_never_reported(void **state _unused_)
{
    const struct run_options run_options = {.run_id = "r", .job_id = "j"};
    struct engine_options options = {
        .settings = {.interval_ns = 3600 * NS_PER_SEC, .scope = SCOPE_JOBS},
        .only_jobs = true,
        .wants_events = true,
        .on_tick = on_tick,
    };
    struct engine *engine;
    struct run *run;
    uv_loop_t loop;

    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    if (connector_open(&options.connector) < 0)
        skip();
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(registry_new(&options.registry), 0);
    assert_int_equal(registry_add_run(options.registry, &run_options, &run), 0);
    assert_int_equal(engine_start(&loop, &options, &engine), 0);
    assert_int_equal(registry_add(options.registry, run, INT_UNKNOWN, pid), 0);

    engine_await_ends(engine, NS_PER_MSEC);
    assert_int_equal(engine_collect(engine), 0);
    assert_int_equal(gap_count, 1);
    assert_int_equal(lost_ends, 1);
    assert_int_equal(engine_collect(engine), 0);
    assert_int_equal(gap_count, 1);

    engine_close(engine);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    registry_free(options.registry);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_end_that_is_never_reported)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
