/* The feed of events with the real kernel: ends that only the connector reports, after the kernel's
 * own programs have taken over from it; when execs are read; and OOM kills of processes that belong
 * to no run yet. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"
#include "config/paths.h"
#include "engine/lifecycle-feed.h"
#include "kernel-world.h"
#include "model/field.h"

#define MEMORY_GROUPS "/sys/fs/cgroup/memory"

/* The pids of the ends that were reported, in their order. */
static pid_t ends[8];
static size_t end_count;
static size_t exec_count;
static size_t accounted_ends;
/* The process that the kernel kills for its memory, and how often that was reported: for a member,
 * and for another process. */
static pid_t victim;
static size_t member_kills, other_kills;

static void check_kill(const struct lifecycle_event *event)
{
    assert_true(strlen(event->command) > 0);
    assert_non_null(strstr(event->details, "out of memory: "));
}

static void on_member(void *context _unused_, struct member *member,
                      const struct lifecycle_event *event, double timestamp _unused_)
{
    if (event->kind == LIFECYCLE_OOM) {
        assert_int_equal(event->pid, victim);
        check_kill(event);
        assert_int_equal(end_count, 0); /* the OOM kill is reported before the exit */
        member_kills++;
    }
    exec_count += event->kind == LIFECYCLE_EXEC;
    if (event->kind != LIFECYCLE_EXIT)
        return;
    assert_true(end_count < ARRAY_SIZE(ends));
    ends[end_count++] = member->pid;
}

static void on_account(void *context _unused_, struct member *member _unused_,
                       const struct lifecycle_event *event)
{
    accounted_ends += event->kind == LIFECYCLE_EXIT;
}

static void on_other(void *context _unused_, const struct lifecycle_event *event,
                     double timestamp _unused_)
{
    if (event->kind != LIFECYCLE_OOM ||
        event->pid != victim) /* other processes may be killed, too */
        return;
    check_kill(event);
    other_kills++;
}

static struct world {
    uv_loop_t loop;
    struct registry *registry;
    struct run *run;
    struct lifecycle_feed *feed;
    struct kernel_probe *all; /* a probe that reports events of all processes; or NULL */
    int gate[2];              /* a child lives until its writing end is closed */
} world;

/* A feed by the connector, and a run. */
static int set_up_with(struct lifecycle_feed_options feed_options)
{
    const struct run_options options = {.run_id = "r", .job_id = "j"};
    struct lifecycle_source source = {0};

    world = (struct world){0};
    end_count = exec_count = accounted_ends = member_kills = other_kills = 0;
    victim = 0;
    assert_int_equal(uv_loop_init(&world.loop), 0);
    assert_int_equal(registry_new(&world.registry), 0);
    assert_int_equal(registry_add_run(world.registry, &options, &world.run), 0);
    assert_int_equal(pipe(world.gate), 0);
    if (connector_open(&source.connector) < 0)
        skip();
    feed_options.on_member = on_member;
    feed_options.on_other = on_other;
    feed_options.on_account = on_account;
    feed_options.registry = world.registry;
    assert_int_equal(lifecycle_feed_start(&world.loop, &source, &feed_options, &world.feed), 0);
    return 0;
}

static int set_up(void **state _unused_)
{
    return set_up_with((struct lifecycle_feed_options){0});
}

/* A process counts as slow as soon as the kernel's programs have taken over. */
static int set_up_impatient(void **state _unused_)
{
    return set_up_with((struct lifecycle_feed_options){.former_ns = 1});
}

/* Events of other processes are kept for as long as the test may take. */
static int set_up_remembering(void **state _unused_)
{
    return set_up_with(
        (struct lifecycle_feed_options){.remembers_others = true, .others_ns = 3600 * NS_PER_SEC});
}

/* … for a few timer periods of the feed. */
static int set_up_forgetting(void **state _unused_)
{
    return set_up_with(
        (struct lifecycle_feed_options){.remembers_others = true, .others_ns = 200 * NS_PER_MSEC});
}

static int tear_down(void **state _unused_)
{
    close(world.gate[0]);
    lifecycle_feed_close(world.feed);
    uv_run(&world.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&world.loop), 0);
    kernel_probe_close(world.all);
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

/* A process that was exiting when it was covered: the kernel's programs have no tag for it, and it
 * takes longer than others. */
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

    nap(); /* the connector is kept open only for this process */
    assert_int_equal(end_count, 0);
    close(world.gate[1]);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    await_ends(1);
    assert_int_equal(accounted_ends, 0); /* the connector reports no usage */
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
    assert_int_equal(kernel_probe_tag(probe, parent, world.run->node.tag), 0);
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

/* ---- execs ---- */

/* A member that executes a program when the gate opens. */
static pid_t fork_program(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        await_gate();
        execl("/bin/sh", "sh", "-c", "exit 3", NULL);
        _exit(1);
    }
    assert_int_equal(registry_add(world.registry, world.run, INT_UNKNOWN, pid), 0);
    lifecycle_feed_drain(world.feed);
    assert_int_equal(exec_count, 0);
    return pid;
}

/* The name of the program must be read while the process exists: not after a delay. */
static void test_rare_exec_is_read_at_once(void **state _unused_)
{
    pid_t pid = fork_program();

    close(world.gate[1]);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    uv_run(&world.loop, UV_RUN_NOWAIT); /* one pass */
    assert_int_equal(exec_count, 1);
}

static void test_exec_from_two_sources(void **state _unused_)
{
    pid_t pid = fork_program();

    assert_int_equal(kernel_probe_tag(probe, pid, world.run->node.tag), 0);
    close(world.gate[1]);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(lifecycle_feed_use_kernel(world.feed, probe), 0);
    assert_int_equal(exec_count, 1); /* the connector's; that of the kernel's programs is queued */
    await_ends(1);
    nap();
    assert_int_equal(exec_count, 1);
}

/* ---- OOM kills ---- */

static bool write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool is_written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

    close(fd);
    return is_written;
}

/* In a child: uses more memory than its cgroup may have, and is killed. */
_Noreturn static void use_too_much(const char *procs)
{
    const size_t size = 64 << 20;

    if (!write_file(procs, "0"))
        _exit(2);
    volatile char *bytes = malloc(size);
    for (size_t i = 0; bytes && i < size; i += 1024)
        bytes[i] = 1;
    _exit(1);
}

/* Reports all processes from now on, by the kernel's own programs. */
static void use_probe_of_all(void)
{
    const struct kernel_probe_options options = {.proc_root = PROC_ROOT, .wants_all = true};

    if (geteuid() != 0 || access(MEMORY_GROUPS, W_OK) < 0)
        skip();
    assert_int_equal(kernel_probe_open(&options, &world.all, &(struct kernel_probe_error){0}), 0);
    if (!kernel_probe_has(world.all, KERNEL_PART_OOM))
        skip();
    assert_int_equal(lifecycle_feed_use_kernel(world.feed, world.all), 0);
}

/* A process without a run, which the kernel kills for its memory. */
static void make_oom_kill(void)
{
    char group[128], path[160];
    int status;

    snprintf(group, sizeof(group), MEMORY_GROUPS "/sonde-test-feed-%d", (int)getpid());
    assert_int_equal(mkdir(group, 0755), 0);
    snprintf(path, sizeof(path), "%s/memory.limit_in_bytes", group);
    assert_true(write_file(path, "16777216"));
    snprintf(path, sizeof(path), "%s/memory.swappiness", group);
    assert_true(write_file(path, "0"));
    snprintf(path, sizeof(path), "%s/cgroup.procs", group);
    victim = fork();
    if (victim == 0)
        use_too_much(path);
    assert_int_equal(waitpid(victim, &status, 0), victim);
    while (rmdir(group) < 0) /* the kernel may take a moment */
        assert_int_equal(errno, EBUSY);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* A job that is registered after the kernel has killed one of its processes. */
static void test_kill_before_the_run_is_known(void **state _unused_)
{
    bool is_complete;

    use_probe_of_all();
    make_oom_kill();
    lifecycle_feed_drain(world.feed);
    assert_int_equal(member_kills + other_kills, 0);
    assert_int_equal(registry_add(world.registry, world.run, INT_UNKNOWN, victim), 0);
    assert_true(lifecycle_feed_replay(world.feed, victim, &is_complete));
    assert_int_equal(member_kills, 1);
    await_ends(1);
    lifecycle_feed_report_held_kills(world.feed);
    assert_int_equal(member_kills, 1);
    assert_int_equal(other_kills, 0);
}

/* A process that became a member without a replay. */
static void test_kill_of_a_process_that_is_found_later(void **state _unused_)
{
    use_probe_of_all();
    make_oom_kill();
    lifecycle_feed_drain(world.feed);
    assert_int_equal(registry_add(world.registry, world.run, INT_UNKNOWN, victim), 0);
    lifecycle_feed_report_held_kills(world.feed);
    assert_int_equal(member_kills, 1);
    assert_int_equal(other_kills, 0);
}

/* The pid was reused. */
static void test_kill_and_a_reused_pid(void **state _unused_)
{
    use_probe_of_all();
    make_oom_kill();
    lifecycle_feed_drain(world.feed);
    assert_int_equal(registry_add(world.registry, world.run, INT_UNKNOWN, victim), 0);
    registry_find(world.registry, victim)->start_ticks =
        1; /* no real process has this start time */
    lifecycle_feed_report_held_kills(world.feed);
    assert_int_equal(member_kills, 0);
    assert_int_equal(other_kills, 1);
}

static void await_sleep(void)
{
    while (!kernel_probe_sleeps(world.all))
        uv_run(&world.loop, UV_RUN_ONCE);
}

/* No run claims it. Without a timer in the feed, the loop would wait here forever: the first kill
 * is drained before the loop sees that there is something to read. */
static void test_kill_without_a_run(void **state _unused_)
{
    use_probe_of_all();
    await_sleep();
    make_oom_kill();
    lifecycle_feed_drain(world.feed);
    assert_int_equal(other_kills, 0);
    while (other_kills == 0)
        uv_run(&world.loop, UV_RUN_ONCE);

    await_sleep();
    make_oom_kill();
    while (other_kills == 1)
        uv_run(&world.loop, UV_RUN_ONCE);
    lifecycle_feed_drain(world.feed);
    assert_int_equal(other_kills, 2);
    assert_int_equal(member_kills, 0);
}

/* The event that wakes the loop is drained before the loop sees that there is something to read:
 * the next one must still wake it. If it does not, the loop waits here forever. */
static void test_wakes_after_a_drain(void **state _unused_)
{
    int status;

    assert_int_equal(lifecycle_feed_use_kernel(world.feed, probe), 0);
    for (size_t round = 0; round < 3; round++) {
        while (!kernel_probe_sleeps(probe))
            uv_run(&world.loop, UV_RUN_ONCE);
        assert_int_equal(pipe(world.gate), 0);
        pid_t pid = fork();
        if (pid == 0) {
            await_gate();
            _exit(0);
        }
        assert_int_equal(registry_add(world.registry, world.run, INT_UNKNOWN, pid), 0);
        assert_int_equal(kernel_probe_tag(probe, pid, world.run->node.tag), 0);
        registry_find(world.registry, pid)->is_covered = true;
        close(world.gate[1]);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        close(world.gate[0]);
        assert_false(kernel_probe_sleeps(probe)); /* its exit should wake the loop */
        if (round < 2)
            await_ends(round + 1);
        while (end_count <= round)
            uv_run(&world.loop, UV_RUN_ONCE);
    }
    assert_int_equal(pipe(world.gate), 0); /* for tear_down() */
}

/* The daemon stops while the event is held. */
static void test_held_kill_is_reported_at_stop(void **state _unused_)
{
    use_probe_of_all();
    make_oom_kill();
    lifecycle_feed_drain(world.feed);
    assert_int_equal(other_kills, 0);
    lifecycle_feed_report_held_kills(world.feed);
    assert_int_equal(other_kills, 1);
    make_oom_kill();
    while (other_kills < 2) /* the event may be in the ring behind one that is still written */
        nap();
    assert_int_equal(other_kills, 2);
}

/* More events of other processes than are kept. */
static void test_kill_that_is_overwritten(void **state _unused_)
{
    use_probe_of_all();
    make_oom_kill();
    lifecycle_feed_drain(world.feed);
    assert_int_equal(other_kills, 0);
    pid_t storm = fork();
    while (storm == 0) {
        pid_t pid = vfork();
        if (pid == 0)
            _exit(0);
        waitpid(pid, NULL, 0);
    }
    while (other_kills == 0)
        nap();
    kill(storm, SIGKILL);
    waitpid(storm, NULL, 0);
    assert_int_equal(member_kills, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_end_that_takes_long, set_up_impatient, tear_down),
        cmocka_unit_test_setup_teardown(test_ends_from_two_sources, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_rare_exec_is_read_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_exec_from_two_sources, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_wakes_after_a_drain, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_kill_before_the_run_is_known, set_up_remembering,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_kill_of_a_process_that_is_found_later,
                                        set_up_remembering, tear_down),
        cmocka_unit_test_setup_teardown(test_kill_and_a_reused_pid, set_up_remembering, tear_down),
        cmocka_unit_test_setup_teardown(test_kill_without_a_run, set_up_forgetting, tear_down),
        cmocka_unit_test_setup_teardown(test_held_kill_is_reported_at_stop, set_up_remembering,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_kill_that_is_overwritten, set_up_remembering,
                                        tear_down),
    };

    if (!kernel_world_is_allowed())
        return 0;
    return cmocka_run_group_tests(tests, kernel_world_set_up, kernel_world_tear_down);
}
