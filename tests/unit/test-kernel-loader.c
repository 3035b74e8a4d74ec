/* When the kernel probe is opened beside a loop: not before its delay is over, and not if it is no
 * longer wanted then. The tests do not depend on whether it can be opened here.
 *
 * A loop calls timers in the order in which they are due, however late it is. So timers that are
 * due before and after the loader show when it begins, on a busy machine too. */
#include "unit.h"

#include "base/cleanup.h"
#include "base/macros.h"
#include "config/paths.h"
#include "run/kernel-loader.h"

#define DELAY_MS 20

static struct world {
    uv_loop_t loop;
    uv_timer_t before, after; /* due before the loader, and after it */
    struct kernel_loader *loader;
    enum kernel_decision decision;
    unsigned asked;        /* calls of decide() */
    unsigned asked_before; /* the same when `before` was due */
    unsigned loaded;
    unsigned loaded_before;
    bool is_after;
} world;

static void on_before(uv_timer_t *timer _unused_)
{
    world.asked_before = world.asked;
    world.loaded_before = world.loaded;
}

static void on_after(uv_timer_t *timer _unused_)
{
    world.is_after = true;
}

static enum kernel_decision decide(void *context _unused_)
{
    world.asked++;
    return world.decision;
}

static void on_loaded(void *context _unused_, struct kernel_probe *kernel,
                      const struct kernel_probe_error *refusal _unused_)
{
    world.loaded++;
    kernel_probe_close(kernel);
}

static int set_up(void **state _unused_)
{
    const struct kernel_loader_options options = {.probe = {.proc_root = PROC_ROOT},
                                                  .delay_ms = DELAY_MS,
                                                  .decide = decide,
                                                  .on_loaded = on_loaded};

    /* An invalid value, in case `before` is never called. */
    world = (struct world){.decision = KERNEL_WANTED, .asked_before = 99, .loaded_before = 99};
    assert_int_equal(uv_loop_init(&world.loop), 0);
    uv_timer_init(&world.loop, &world.before);
    uv_timer_init(&world.loop, &world.after);
    uv_timer_start(&world.before, on_before, DELAY_MS - 1, 0);
    assert_int_equal(kernel_loader_start(&world.loop, &options, &world.loader), 0);
    uv_timer_start(&world.after, on_after, DELAY_MS + 1, 0);
    return 0;
}

static int tear_down(void **state _unused_)
{
    kernel_loader_close(world.loader);
    uv_close((uv_handle_t *)&world.before, NULL);
    uv_close((uv_handle_t *)&world.after, NULL);
    uv_run(&world.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&world.loop), 0);
    return 0;
}

static void await_after(void)
{
    while (!world.is_after)
        uv_run(&world.loop, UV_RUN_ONCE);
    assert_int_equal(world.asked_before, 0);
    assert_int_equal(world.loaded_before, 0);
    assert_int_equal(world.asked, 1);
}

static void test_after_its_delay(void **state _unused_)
{
    await_after();
    while (!world.loaded) /* meson's timeout ends the test if this never happens */
        uv_run(&world.loop, UV_RUN_ONCE);
    assert_int_equal(world.loaded, 1);
    assert_int_equal(world.asked, 1);
}

static void test_not_if_unwanted(void **state _unused_)
{
    world.decision = KERNEL_UNWANTED;
    await_after();
    uv_run(&world.loop, UV_RUN_NOWAIT);
    assert_int_equal(world.loaded, 0);
}

static void test_when_decided(void **state _unused_)
{
    world.decision = KERNEL_UNDECIDED;
    await_after();
    while (world.asked < 3)
        uv_run(&world.loop, UV_RUN_ONCE);
    assert_int_equal(world.loaded, 0);
    world.decision = KERNEL_WANTED;
    while (!world.loaded)
        uv_run(&world.loop, UV_RUN_ONCE);
    assert_int_equal(world.asked, 4);
}

/* A command that has ended by then costs nothing. */
static void test_closed_before_its_delay(void **state _unused_)
{
    kernel_loader_close(TAKE_PTR(world.loader));
    while (!world.is_after)
        uv_run(&world.loop, UV_RUN_ONCE);
    assert_int_equal(world.asked, 0);
    assert_int_equal(world.loaded, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_after_its_delay, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_not_if_unwanted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_when_decided, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_closed_before_its_delay, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
