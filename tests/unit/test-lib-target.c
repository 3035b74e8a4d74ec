/* The readings of a target, one by one; the test controls what happens between them. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/macros.h"
#include "lib-world.h"
#include "lib/target.h"
#include "model/field.h"

/* ---- processes that the test controls ---- */

/* A parent, its child and its grandchild. Each reads commands from its own pipe and confirms them:
 * 'b' uses CPU time, 's' a little of it, 'm' allocates memory and frees it, 'k' keeps it, 'f' forks
 * a child that keeps it, 'x' ends. Each parent reaps its children. */
enum { PARENT, CHILD, GRANDCHILD, MEMBERS };

#define BURN_MS 200

struct family {
    pid_t parent;
    int orders[MEMBERS][2];
    int done[2];
};

static void burn_ms(long ms)
{
    struct timespec ts;
    uint64_t until_ns = 0;

    for (;;) {
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
        uint64_t now_ns = (uint64_t)ts.tv_sec * NS_PER_SEC + (uint64_t)ts.tv_nsec;
        if (!until_ns)
            until_ns = now_ns + (uint64_t)ms * NS_PER_MSEC;
        if (now_ns >= until_ns)
            return;
    }
}

static void confirm(const struct family *family)
{
    if (write(family->done[1], "x", 1) != 1)
        _exit(1);
}

static void have_child(const struct family *family)
{
    pid_t pid = fork();

    if (pid < 0)
        _exit(1);
    if (pid > 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    take_memory(32 * MB);
    confirm(family);
    for (;;)
        pause();
}

static void obey(const struct family *family, int who)
{
    char letter;

    while (read(family->orders[who][0], &letter, 1) == 1) {
        switch (letter) {
        case 'b': burn_ms(BURN_MS); break;
        case 's': burn_ms(2); break;
        case 'f': have_child(family); continue; /* the child confirms */
        case 'm': hold_memory(64 * MB, 0); break;
        case 'k': take_memory(32 * MB); break;
        case 'r': waitpid(-1, NULL, 0); break;
        default: _exit(0);
        }
        confirm(family);
    }
    _exit(0);
}

static void live(const struct family *family)
{
    for (int i = 0; i < MEMBERS; i++)
        close(family->orders[i][1]); /* else the child would not get the end of file */
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (fork() == 0) {
        if (fork() == 0) {
            confirm(family);
            obey(family, GRANDCHILD);
        }
        obey(family, CHILD);
    }
    obey(family, PARENT);
}

static void await_done(const struct family *family)
{
    char byte;
    assert_int_equal(read(family->done[0], &byte, 1), 1);
}

static void family_start(struct family *family)
{
    for (int i = 0; i < MEMBERS; i++)
        assert_int_equal(pipe2(family->orders[i], O_CLOEXEC), 0);
    assert_int_equal(pipe2(family->done, O_CLOEXEC), 0);
    family->parent = fork();
    if (family->parent == 0)
        live(family);
    await_done(family);
}

static void command(const struct family *family, int who, char letter)
{
    assert_int_equal(write(family->orders[who][1], &letter, 1), 1);
    if (letter == 'x') { /* and is waited for by the parent */
        letter = 'r';
        assert_int_equal(write(family->orders[PARENT][1], &letter, 1), 1);
    }
    await_done(family);
}

static void family_end(struct family *family)
{
    for (int i = 0; i < MEMBERS; i++) {
        close(family->orders[i][0]);
        close(family->orders[i][1]);
    }
    assert_int_equal(waitpid(family->parent, NULL, 0), family->parent);
    close(family->done[0]);
    close(family->done[1]);
}

static struct target_reading look_at(struct target *target)
{
    struct target_reading reading;

    assert_int_equal(target_read(target, false, &reading), 0);
    return reading;
}

static void assert_used(const struct target_reading *from, const struct target_reading *to, long ms)
{
    long used_ms = (long)((to->cpu_ns - from->cpu_ns) / (int64_t)NS_PER_MSEC);

    /* times of children are in ticks; waiting uses a little time, too */
    if (used_ms < ms - 25 || used_ms > ms + 50)
        fail_msg("%ld ms are not %ld", used_ms, ms);
}

/* ---- tests ---- */

static void test_children_and_grandchildren(void **state _unused_)
{
    struct family family;
    struct target *target = NULL;

    family_start(&family);
    assert_int_equal(target_new(family.parent, true, &target), 0);
    struct target_reading first = look_at(target);
    command(&family, GRANDCHILD, 'k');
    struct target_reading second = look_at(target);
    assert_true(second.rss_bytes - first.rss_bytes > (int64_t)(31 * MB));
    command(&family, CHILD, 'b');
    struct target_reading third = look_at(target);
    assert_used(&second, &third, BURN_MS);
    assert_true(third.mono_ns > second.mono_ns);
    target_free(target);
    family_end(&family);
}

/* Also if no process was created for a while, and a busy process was read only briefly. */
static void test_process_started_later(void **state _unused_)
{
    struct family family;
    struct target *target = NULL;
    struct target_reading before;

    family_start(&family);
    assert_int_equal(target_new(family.parent, true, &target), 0);
    for (int i = 0; i < 7; i++) {
        command(&family, GRANDCHILD, 's');
        before = look_at(target);
    }
    command(&family, GRANDCHILD, 'f');
    struct target_reading after = look_at(target);
    assert_true(after.rss_bytes - before.rss_bytes > (int64_t)(31 * MB));
    target_free(target);
    family_end(&family);
}

/* The time of a process counts once when it moves to the process that reaps it, even if that was
 * not its parent at the last complete reading. */
static void test_orphans(void **state _unused_)
{
    struct family family;
    struct target *target = NULL;

    family_start(&family);
    assert_int_equal(target_new(family.parent, true, &target), 0);
    struct target_reading first = look_at(target);
    command(&family, CHILD, 'x');
    look_at(target);
    command(&family, GRANDCHILD, 'b');
    struct target_reading second = look_at(target);
    assert_used(&first, &second, BURN_MS);
    command(&family, GRANDCHILD, 'x');
    struct target_reading third = first;
    for (int i = 0; i < 40; i++) /* so that figures that are read rarely have been read */
        third = look_at(target);
    assert_used(&first, &third, BURN_MS);
    target_free(target);
    family_end(&family);
}

/* A process that was never seen counts through its parent. */
static void test_children_between_readings(void **state _unused_)
{
    struct family family;
    struct target *target = NULL;
    struct target_reading last;

    family_start(&family);
    assert_int_equal(target_new(family.parent, true, &target), 0);
    struct target_reading first = look_at(target);
    command(&family, GRANDCHILD, 'b');
    command(&family, CHILD, 'x');
    command(&family, GRANDCHILD, 'x');
    assert_int_equal(target_read(target, true, &last), 0);
    assert_used(&first, &last, BURN_MS);
    target_free(target);
    family_end(&family);
}

static void test_peak_between_readings(void **state _unused_)
{
    struct family family;
    struct target *target = NULL;
    struct target_reading reading;

    family_start(&family);
    assert_int_equal(target_new(family.parent, true, &target), 0);
    look_at(target);
    command(&family, GRANDCHILD, 'm');
    assert_int_equal(target_read(target, true, &reading), 0);
    assert_true(reading.rss_bytes < (int64_t)(64 * MB));
    assert_true(reading.risen_bytes > (int64_t)(64 * MB));
    assert_int_equal(target_read(target, true, &reading), 0);
    assert_false(int_is_known(reading.risen_bytes)); /* reported once */

    /* the same again is hidden, unless it was reset */
    command(&family, GRANDCHILD, 'm');
    assert_int_equal(target_read(target, true, &reading), 0);
    assert_false(reading.risen_bytes > (int64_t)(70 * MB));
    assert_int_equal(target_reset_peak(target), 0);
    command(&family, GRANDCHILD, 'm');
    assert_int_equal(target_read(target, true, &reading), 0);
    assert_true(reading.risen_bytes > (int64_t)(64 * MB));
    target_free(target);
    family_end(&family);
}

static void test_end_of_all_processes(void **state _unused_)
{
    struct family family;
    struct target *target = NULL;
    struct target_reading reading;

    family_start(&family);
    assert_int_equal(target_new(family.parent, true, &target), 0);
    struct target_reading first = look_at(target);
    command(&family, PARENT, 'b');
    kill(family.parent, SIGKILL);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)family.parent, &info, WEXITED | WNOWAIT), 0);
    /* its descendants live on */
    assert_int_equal(target_read(target, true, &reading), 0);
    assert_used(&first, &reading, BURN_MS);
    for (int i = CHILD; i < MEMBERS; i++)
        assert_int_equal(write(family.orders[i][1], "x", 1), 1);
    while (target_read(target, true, &reading) == 0)
        nap_ms(1);
    assert_int_equal(target_read(target, true, &reading), -ESRCH);
    assert_used(&first, &reading, BURN_MS); /* the CPU time of a zombie is known */
    assert_false(int_is_known(reading.rss_bytes));
    family_end(&family);
    assert_int_equal(target_read(target, true, &reading), -ESRCH);
    target_free(target);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_children_and_grandchildren),
        cmocka_unit_test(test_process_started_later),
        cmocka_unit_test(test_orphans),
        cmocka_unit_test(test_children_between_readings),
        cmocka_unit_test(test_peak_between_readings),
        cmocka_unit_test(test_end_of_all_processes),
    };
    return cmocka_run_group_tests_name("lib-target", tests, NULL, NULL);
}
