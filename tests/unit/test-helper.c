/* Helper programs that succeed, hang, flood, die or leave children: each with the real spawner, in
 * a real loop. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/macros.h"
#include "loop/helper.h"
#include "loop/reaper.h"

struct world {
    uv_loop_t loop;
    struct helpers *helpers;
    int ends;
    int started, ended; /* calls of on_start and on_end */
    struct helper_end end;
    char output[4096];
    char seen[4096];
};

static void on_start(void *context, pid_t pid)
{
    struct world *world = context;

    assert_true(pid > 0);
    world->started++;
}

static void on_gone(void *context, pid_t pid)
{
    struct world *world = context;

    assert_true(pid > 0);
    world->ended++;
}

static void on_output(void *context, const char *output, size_t length)
{
    struct world *world = context;

    snprintf(world->seen, sizeof(world->seen), "%.*s", (int)length, output);
}

static void on_end(void *context, const struct helper_end *end)
{
    struct world *world = context;

    world->ends++;
    world->end = *end;
    snprintf(world->output, sizeof(world->output), "%.*s", (int)end->length, end->output);
}

static int set_up(void **state)
{
    static struct world world;

    world = (struct world){0};
    assert_int_equal(uv_loop_init(&world.loop), 0);
    assert_int_equal(helpers_new(&world.loop,
                                 &(struct helpers_options){
                                     .on_start = on_start, .on_end = on_gone, .context = &world},
                                 &world.helpers),
                     0);
    *state = &world;
    return 0;
}

static int tear_down(void **state)
{
    struct world *world = *state;

    helpers_close(world->helpers);
    uv_run(&world->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&world->loop), 0);
    assert_int_equal(world->started, world->ended);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* nothing left */
    assert_int_equal(errno, ECHILD);
    return 0;
}

static struct helper_options shell(struct world *world, const char *const *argv)
{
    return (struct helper_options){
        .argv = argv,
        .stop_signal = SIGINT,
        .deadline_ms = 20000,
        .grace_ms = 20000,
        .output_max = 2048,
        .on_output = on_output,
        .on_end = on_end,
        .context = world,
    };
}

static struct helper *start(struct world *world, const struct helper_options *options)
{
    struct helper *helper = NULL;

    assert_int_equal(helper_start(world->helpers, options, &helper), 0);
    assert_true(helpers_have(world->helpers, helper_pid(helper)));
    return helper;
}

static void wait_for_end(struct world *world)
{
    while (!world->ends)
        uv_run(&world->loop, UV_RUN_ONCE);
    assert_true(helpers_is_empty(world->helpers));
}

#define SCRIPT(text) ((const char *const[]){"/bin/sh", "-c", (text), NULL})

static void test_output_and_status(void **state)
{
    struct world *world = *state;
    struct helper_options options = shell(world, SCRIPT("echo said; echo wrong >&2; exit 3"));

    start(world, &options);
    wait_for_end(world);
    assert_string_equal(world->output, "said\n");
    assert_true(WIFEXITED(world->end.wait_status));
    assert_int_equal(WEXITSTATUS(world->end.wait_status), 3);
    assert_false(world->end.was_late);
    assert_false(world->end.was_cut);
}

static void test_output_of_stderr(void **state)
{
    struct world *world = *state;
    struct helper_options options = shell(world, SCRIPT("echo said; echo wrong >&2"));

    options.reads = HELPER_READ_STDERR;
    start(world, &options);
    wait_for_end(world);
    assert_string_equal(world->output, "wrong\n");
    assert_string_equal(world->seen, "wrong\n");
}

/* A helper inherits no environment, descriptors, directory, signals or terminal. */
static void test_environment_is_clean(void **state)
{
    struct world *world = *state;
    int leaked = open("/dev/zero", O_RDONLY); /* not closed on exec */
    struct helper_options options = shell(
        world, SCRIPT("pwd; env | sort | cut -d= -f1 | tr '\\n' ' '; ls /proc/self/fd | wc -l; "
                      "cut -d' ' -f6 /proc/self/stat | grep -qx $$ && echo own session; "
                      "grep -E 'Sig(Blk|Ign)' /proc/self/status | tr -d '\\n\\t'; cat"));
    sigset_t all;

    setenv("LD_PRELOAD_OF_CALLER", "x", 1);
    signal(SIGUSR1, SIG_IGN);
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    start(world, &options);
    sigprocmask(SIG_UNBLOCK, &all, NULL);
    signal(SIGUSR1, SIG_DFL);
    wait_for_end(world);
    close(leaked);
    unsetenv("LD_PRELOAD_OF_CALLER");
    /* ls has the three standard streams and its directory open. */
    assert_string_equal(world->output, "/\nLC_ALL PATH PWD 4\nown session\n"
                                       "SigBlk:0000000000000000SigIgn:0000000000000000");
}

static void test_missing_program(void **state)
{
    struct world *world = *state;
    struct helper_options options =
        shell(world, (const char *const[]){"/nonexistent/program", NULL});

    start(world, &options);
    wait_for_end(world);
    assert_int_equal(world->end.report.step, SPAWN_STEP_EXEC);
    assert_int_equal(world->end.report.error, ENOENT);
}

static void test_file_for_its_output(void **state)
{
    struct world *world = *state;
    struct helper_options options = shell(world, SCRIPT("echo said; echo wrong >&2"));
    char directory[] = "/tmp/test-helper-XXXXXX", path[64], link_path[64], content[16] = "";

    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof(path), "%s/out", directory);
    snprintf(link_path, sizeof(link_path), "%s/link/out", directory);
    options.reads = HELPER_READ_STDERR;
    options.stdout_path = path;
    start(world, &options);
    wait_for_end(world);
    assert_int_equal(world->end.report.error, 0);
    assert_string_equal(world->output, "wrong\n");
    FILE *file = fopen(path, "re");
    assert_non_null(fgets(content, sizeof(content), file));
    fclose(file);
    assert_string_equal(content, "said\n");
    /* existing files are not overwritten, and links are not followed */
    world->ends = 0;
    start(world, &options);
    wait_for_end(world);
    assert_int_equal(world->end.report.step, SPAWN_STEP_FILE);
    assert_int_equal(world->end.report.error, EEXIST);
    unlink(path);
    snprintf(path, sizeof(path), "%s/link", directory);
    assert_int_equal(symlink(directory, path), 0);
    options.stdout_path = link_path;
    world->ends = 0;
    start(world, &options);
    wait_for_end(world);
    assert_int_equal(world->end.report.error, ELOOP);
    unlink(path);
    rmdir(directory);
}

/* A tracer delays the reap; helper.c does not block on that. */
static void test_traced_helper(void **state)
{
    struct world *world = *state;
    struct helper_options options = shell(world, SCRIPT("echo ready; sleep 1000"));
    int gate[2];
    char byte;

    assert_int_equal(pipe(gate), 0);
    pid_t pid = helper_pid(start(world, &options));
    while (!strstr(world->seen, "ready"))
        uv_run(&world->loop, UV_RUN_ONCE);
    pid_t tracer = fork();
    if (tracer == 0) {
        bool is_traced = ptrace(PTRACE_SEIZE, pid, NULL, NULL) == 0;
        if (is_traced)
            kill(pid, SIGKILL);
        byte = is_traced;
        write(gate[1], &byte, 1);
        pause(); /* … and never waits for it */
        _exit(0);
    }
    assert_int_equal(read(gate[0], &byte, 1), 1);
    if (!byte) {
        kill(tracer, SIGKILL);
        waitpid(tracer, NULL, 0);
        skip();
    }
    while (!world->ends)
        uv_run(&world->loop, UV_RUN_ONCE);
    assert_int_equal(world->end.wait_status, -1);
    assert_true(helpers_have(world->helpers, pid));
    kill(tracer, SIGKILL);
    waitpid(tracer, NULL, 0);
    while (!helpers_is_empty(world->helpers))
        uv_run(&world->loop, UV_RUN_ONCE);
    close(gate[0]);
    close(gate[1]);
}

/* A second stop request does not extend its deadline. */
static void test_second_stop_does_not_extend_the_deadline(void **state)
{
    struct world *world = *state;
    struct helper_options options =
        shell(world, SCRIPT("trap '' INT; echo ready; while :; do sleep 1; done"));

    struct helper *helper = start(world, &options);
    while (!strstr(world->seen, "ready"))
        uv_run(&world->loop, UV_RUN_ONCE);
    helper_stop(helper, 100);
    helper_stop(helper, 1000000);
    wait_for_end(world);
    assert_true(world->end.was_late);
}

static void test_stop_signal(void **state)
{
    struct world *world = *state;
    struct helper_options options = shell(
        world, SCRIPT("trap 'echo table; exit 0' INT; echo ready; while :; do sleep 0.01; done"));

    struct helper *helper = start(world, &options);
    while (!strstr(world->seen, "ready"))
        uv_run(&world->loop, UV_RUN_ONCE);
    helper_stop(helper, 20000);
    wait_for_end(world);
    assert_string_equal(world->output, "ready\ntable\n");
    assert_true(WIFEXITED(world->end.wait_status));
    assert_false(world->end.was_late);
}

/* After its deadline it gets the stop signal; if it ignores that, it is killed with its children.
 * */
static void test_program_that_hangs(void **state)
{
    struct world *world = *state;
    struct helper_options options =
        shell(world, SCRIPT("trap '' INT TERM; sleep 1000 & echo $!; while :; do sleep 1; done"));

    options.deadline_ms = 100;
    options.grace_ms = 50;
    start(world, &options);
    wait_for_end(world);
    assert_true(world->end.was_late);
    assert_true(WIFSIGNALED(world->end.wait_status));
    assert_int_equal(WTERMSIG(world->end.wait_status), SIGKILL);
}

static void test_program_that_floods(void **state)
{
    struct world *world = *state;
    struct helper_options options = shell(world, SCRIPT("trap '' INT PIPE; cat /dev/zero"));

    options.grace_ms = 50;
    start(world, &options);
    wait_for_end(world);
    assert_true(world->end.was_cut);
    assert_int_equal(world->end.length, 2048);
}

static bool is_gone(pid_t pid)
{
    char path[64], state = 0;
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");

    if (!file)
        return true;
    if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
        state = 'X';
    fclose(file);
    return state == 'Z' || state == 'X';
}

/* It ends by itself. A child that it left holds its stream open, and is not waited for. */
static void test_program_that_leaves_children(void **state)
{
    struct world *world = *state;
    struct helper_options options = shell(world, SCRIPT("sleep 1000 & echo $!; exit 0"));

    start(world, &options);
    wait_for_end(world);
    pid_t left = (pid_t)atoi(world->output);
    assert_true(left > 0);
    while (!is_gone(left)) /* meson's timeout ends the test if it never ends */
        usleep(1000);
    assert_true(WIFEXITED(world->end.wait_status));
}

/* The helper gets its signal when its parent is killed. */
static void test_helper_gets_death_signal(void **state _unused_)
{
    int fds[2];
    char said[64] = "";

    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        pid_t helper;
        int report_fd;
        const struct spawn_helper_options options = {
            .argv = SCRIPT("trap 'echo asked; exit' INT; echo ready; while :; do sleep 0.01; done"),
            .stdout_fd = fds[1],
            .stderr_fd = -1,
            .death_signal = SIGINT,
        };
        if (spawn_helper(&options, &helper, &report_fd) < 0)
            _exit(1);
        pause();
        _exit(0);
    }
    close(fds[1]);
    assert_int_equal(read(fds[0], said, sizeof(said) - 1), 6); /* "ready\n" */
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    memset(said, 0, sizeof(said));
    assert_int_equal(read(fds[0], said, sizeof(said) - 1), 6);
    assert_string_equal(said, "asked\n");
    close(fds[0]);
}

static void test_as_another_user(void **state)
{
    struct world *world = *state;
    const struct spawn_user other = {.uid = 65534, .gid = 65534};
    struct helper_options options = shell(world, SCRIPT("id -u; id -g; id -G"));

    if (geteuid() != 0)
        skip();
    options.user = &other;
    start(world, &options);
    wait_for_end(world);
    assert_string_equal(world->output, "65534\n65534\n65534\n");
}

static void count_child(void *context, pid_t pid _unused_, int status _unused_,
                        const struct rusage *usage _unused_)
{
    (*(int *)context)++;
}

/* reaper_collect() passes helpers to helpers_reap(). */
static void test_reaper_distinguishes_helpers(void **state)
{
    struct world *world = *state;
    struct helper_options options = shell(world, SCRIPT("exit 5"));
    siginfo_t info;
    int others = 0;

    pid_t helper = helper_pid(start(world, &options));
    pid_t other = fork();
    if (other == 0)
        _exit(0);
    assert_int_equal(waitid(P_PID, (id_t)helper, &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(waitid(P_PID, (id_t)other, &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(reaper_collect(world->helpers, count_child, &others), -ECHILD);
    assert_int_equal(others, 1);
    assert_int_equal(world->ends, 1);
    assert_int_equal(WEXITSTATUS(world->end.wait_status), 5);
}

static void test_closed_while_it_runs(void **state)
{
    struct world *world = *state;
    struct helper_options options =
        shell(world, SCRIPT("trap '' INT TERM; while :; do sleep 1; done"));

    start(world, &options);
    start(world, &options);
    /* tear_down() closes and reaps it without a callback */
}

static void write_program(const char *path, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);

    assert_true(fd >= 0);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

/* Directories that others can write, and relative ones, are not searched. */
static void test_programs_are_found_in_safe_directories(void **state _unused_)
{
    char directory[] = "/tmp/test-helper-XXXXXX", program[128], open_dir[64], path[512], found[512];

    assert_non_null(mkdtemp(directory));
    snprintf(open_dir, sizeof(open_dir), "%s/open", directory);
    assert_int_equal(mkdir(open_dir, 0700), 0);
    assert_int_equal(chmod(open_dir, 0777), 0);
    snprintf(program, sizeof(program), "%s/strace-of-test", open_dir);
    write_program(program, 0755);
    snprintf(path, sizeof(path), "relative::%s:%s", open_dir, directory);
    char *old_path = strdup(getenv("PATH"));
    setenv("PATH", path, 1);
    assert_int_equal(helper_find("strace-of-test", found, sizeof(found)), -ENOENT);

    snprintf(program, sizeof(program), "%s/strace-of-test", directory);
    write_program(program, 0777);
    assert_int_equal(helper_find("strace-of-test", found, sizeof(found)), -ENOENT);
    write_program(program, 0644);
    assert_int_equal(helper_find("strace-of-test", found, sizeof(found)), -ENOENT);
    write_program(program, 0755);
    assert_int_equal(helper_find("strace-of-test", found, sizeof(found)), 0);
    assert_string_equal(found, program);
    assert_int_equal(helper_find("strace-of-test", found, 10), -ENOENT);

    setenv("PATH", old_path, 1);
    free(old_path);
    unlink(program);
    snprintf(program, sizeof(program), "%s/strace-of-test", open_dir);
    unlink(program);
    rmdir(open_dir);
    rmdir(directory);
}

int main(void)
{
#define HELPER_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        HELPER_TEST(test_output_and_status),
        HELPER_TEST(test_output_of_stderr),
        HELPER_TEST(test_environment_is_clean),
        HELPER_TEST(test_missing_program),
        HELPER_TEST(test_file_for_its_output),
        HELPER_TEST(test_traced_helper),
        HELPER_TEST(test_second_stop_does_not_extend_the_deadline),
        HELPER_TEST(test_stop_signal),
        HELPER_TEST(test_program_that_hangs),
        HELPER_TEST(test_program_that_floods),
        HELPER_TEST(test_program_that_leaves_children),
        HELPER_TEST(test_helper_gets_death_signal),
        HELPER_TEST(test_as_another_user),
        HELPER_TEST(test_reaper_distinguishes_helpers),
        HELPER_TEST(test_closed_while_it_runs),
        cmocka_unit_test(test_programs_are_found_in_safe_directories),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
