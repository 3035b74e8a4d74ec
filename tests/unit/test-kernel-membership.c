/* What is not visible from outside: a tag that was lost (the test sets a counter of the programs),
 * and how they were loaded. */
#include "kernel-world.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/macros.h"
#include "probe/bpf/kernel-object.h"
#include "probe/bpf/kernel-skeleton.h"
#include "probe/bpf/type-excerpt.h"
#include "zoo.h"

#define TAG 16

static pid_t latest_fork;
static int exits;

static void note(void *context _unused_, const struct lifecycle_event *event)
{
    assert_int_equal(event->tag, TAG);
    if (event->kind == LIFECYCLE_FORK)
        latest_fork = event->pid;
    exits += event->kind == LIFECYCLE_EXIT;
}

static void drain(void)
{
    assert_int_equal(kernel_probe_drain(probe, note, NULL), 0);
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* A child that could not get its tag has that of its parent. */
static void test_lost_tag(void **state _unused_)
{
    assert_int_equal(kernel_probe_tag(probe, getpid(), TAG), 0);
    pid_t parent = fork();
    if (parent == 0) {
        fork();
        wait_for_ever();
    }
    assert_int_equal(kernel_probe_tag(probe, getpid(), 0), 0);
    while (!latest_fork || latest_fork == parent)
        drain();
    assert_int_equal(kernel_probe_tag(probe, latest_fork, 0), 0);
    probe->object->bss->lost_tags++;
    kill(latest_fork, SIGKILL);
    while (exits < 1)
        drain();
    kill(parent, SIGKILL);
    waitpid(parent, NULL, 0);
}

/* The programs read no structure that is missing in the list in kernel-probe.c: otherwise loading
 * succeeds only at the second attempt. */
static void test_list_of_structures(void **state _unused_)
{
    int fd = type_excerpt_open("/sys/kernel/btf/vmlinux", NULL, 0);

    if (fd < 0) /* before Linux 6.16 it cannot be mapped */
        skip();
    close(fd);
    assert_true(probe->is_loaded_quickly);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lost_tag),
        cmocka_unit_test(test_list_of_structures),
    };

    if (!kernel_world_is_allowed())
        return 0;
    return cmocka_run_group_tests(tests, kernel_world_set_up, kernel_world_tear_down);
}
