/* What is not visible from outside: a tag that was lost (the test sets a counter of the programs),
 * and how they were loaded. */
#include "kernel-world.h"

#include <linux/bpf.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"
#include "engine/engine.h"
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

static int go[2]; /* a pipe: the thread waits for a byte */

static void *fork_in_thread(void *unused _unused_)
{
    char byte;

    if (read(go[0], &byte, 1) == 1 && fork() == 0)
        _exit(0);
    return NULL;
}

static void have_forking_thread(void)
{
    pthread_t thread;

    pthread_create(&thread, NULL, fork_in_thread, NULL);
}

/* Where the kernel cannot walk the threads of a process, those without a tag have that of the
 * process. */
static void test_threads_that_cannot_be_tagged(void **state _unused_)
{
    assert_int_equal(pipe(go), 0);
    struct animal parent = animal_start(have_forking_thread);
    probe->has[KERNEL_PART_PROCESSES] = false;
    assert_int_equal(kernel_probe_tag(probe, parent.pid, TAG), 0);
    probe->has[KERNEL_PART_PROCESSES] = true;
    assert_int_equal(probe->object->bss->lost_tags, 1);
    assert_int_equal(write(go[1], "", 1), 1);
    while (!latest_fork)
        drain();
    animal_end(&parent);
    latest_fork = 0;
    probe->object->bss->lost_tags = 0;
    close(go[0]);
    close(go[1]);
}

static uint32_t tag_in_kernel(pid_t pid)
{
    int pid_fd = (int)syscall(SYS_pidfd_open, pid, 0);
    uint32_t tag = 0;
    union bpf_attr lookup = {.map_fd = (uint32_t)bpf_map__fd(probe->object->maps.membership),
                             .key = (uintptr_t)&pid_fd,
                             .value = (uintptr_t)&tag};

    assert_int_equal(syscall(SYS_bpf, BPF_MAP_LOOKUP_ELEM, &lookup, sizeof(lookup)), 0);
    close(pid_fd);
    return tag;
}

/* The command of `sonde run` has the tag of the run since its fork. If it is a step, it gets that
 * of the step: after lost events, its processes are placed by their tags. */
static void test_command_that_is_a_step(void **state _unused_)
{
    const struct run_options run_options = {.run_id = "r", .job_id = "j"};
    struct animal command = animal_start(do_nothing);
    struct engine_options options = {
        .settings = {.interval_ns = 3600 * NS_PER_SEC, .scope = SCOPE_JOBS},
        .only_jobs = true,
        .kernel = probe,
        .spawned_pid = command.pid,
    };
    struct engine *engine;
    struct run *run;
    uv_loop_t loop;

    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(registry_new(&options.registry), 0);
    assert_int_equal(registry_add_run(options.registry, &run_options, &run), 0);
    assert_int_equal(kernel_probe_tag(probe, command.pid, run->node.tag), 0);
    assert_int_equal(registry_begin_sheet(options.registry, run, 1, command.pid), 0);
    assert_int_equal(registry_add(options.registry, run, 1, command.pid), 0);
    assert_int_equal(engine_start(&loop, &options, &engine), 0);
    assert_int_equal(tag_in_kernel(command.pid), run_find_sheet(run, 1)->node.tag);
    engine_close(engine);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    registry_free(options.registry);
    animal_end(&command);
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
        cmocka_unit_test(test_threads_that_cannot_be_tagged),
        cmocka_unit_test(test_lost_tag),
        cmocka_unit_test(test_command_that_is_a_step),
        cmocka_unit_test(test_list_of_structures),
    };

    if (!kernel_world_is_allowed())
        return 0;
    return cmocka_run_group_tests(tests, kernel_world_set_up, kernel_world_tear_down);
}
