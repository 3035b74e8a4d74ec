/* Children that a process forked before it was registered, with real processes. */
#include "unit.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "engine/earlier-forks.h"
#include "model/field.h"

struct family {
    pid_t parent, child, grandchild;
};

/* The number of generations below the parent, minus one. */
struct birth {
    int depth;
    pid_t pid;
};

static _Noreturn void wait_for_the_end(void)
{
    for (;;)
        pause();
}

static struct birth read_birth(int fd)
{
    struct birth birth;

    assert_int_equal(read(fd, &birth, sizeof(birth)), sizeof(birth));
    return birth;
}

/* Each process reports its child, perhaps the child before its parent; all of them end with their
 * parent if a test fails. */
static struct family start_family(void)
{
    struct family family;
    int pipe_fds[2];

    assert_int_equal(pipe(pipe_fds), 0);
    family.parent = fork();
    for (int depth = 0; family.parent == 0 && depth < 2; depth++) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        struct birth birth = {.depth = depth, .pid = fork()};
        if (birth.pid == 0)
            continue;
        if (write(pipe_fds[1], &birth, sizeof(birth)) != sizeof(birth))
            _exit(1);
        wait_for_the_end();
    }
    if (family.parent == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        wait_for_the_end();
    }
    struct birth first = read_birth(pipe_fds[0]), second = read_birth(pipe_fds[0]);
    assert_int_equal(first.depth + second.depth, 1);
    family.child = first.depth == 0 ? first.pid : second.pid;
    family.grandchild = first.depth == 1 ? first.pid : second.pid;
    close(pipe_fds[0]);
    close(pipe_fds[1]);
    return family;
}

static void test_descendants_become_members(void **state _unused_)
{
    struct family family = start_family();
    struct registry *registry;
    struct run *run;
    struct tick_builder builder = {.wants_events = true};
    _cleanup_close_ int proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);

    assert_int_equal(registry_new(&registry), 0);
    assert_int_equal(
        registry_add_run(registry, &(struct run_options){.run_id = "0197-x", .job_id = "x"}, &run),
        0);
    assert_int_equal(registry_add(registry, run, INT_UNKNOWN, family.parent), 0);
    struct earlier_forks forks = {.registry = registry};
    assert_int_equal(earlier_forks_place(&forks, proc_fd, family.parent), 0);
    assert_int_equal(forks.found.count, 2);
    assert_ptr_equal(registry_find(registry, family.child)->run, run);
    assert_true(registry_find(registry, family.child)->was_found);
    assert_int_equal(registry_find(registry, family.grandchild)->ppid, family.child);

    /* A process that is a member already is not found a second time. */
    struct earlier_forks again = {.registry = registry};
    assert_int_equal(earlier_forks_place(&again, proc_fd, family.parent), 0);
    assert_int_equal(again.found.count, 0);

    /* An event has reported one of them in the meantime. */
    registry_find(registry, family.child)->was_found = false;
    earlier_forks_report(&forks, &builder);
    tick_builder_finish(&builder, NULL);
    struct tick_box *box = tick_builder_take(&builder);
    assert_non_null(box);
    assert_int_equal(box->tick.events.count, 1);
    assert_int_equal(box->tick.events.items[0].event_type, EVENT_SPAWN);
    assert_int_equal(box->tick.events.items[0].pid, family.grandchild);
    assert_int_equal(box->tick.events.items[0].ppid, family.child);

    tick_box_free(box);
    tick_builder_done(&builder);
    earlier_forks_done(&forks);
    earlier_forks_done(&again);
    registry_free(registry);
    /* Descendants first: each has requested its death signal before its parent can end. */
    kill(family.grandchild, SIGKILL);
    kill(family.child, SIGKILL);
    kill(family.parent, SIGKILL);
    assert_int_equal(waitpid(family.parent, NULL, 0), family.parent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_descendants_become_members)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
