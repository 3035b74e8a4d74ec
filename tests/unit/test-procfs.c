#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "base/utf8.h"
#include "model/field.h"
#include "model/process.h"
#include "probe/procfs.h"

static const struct process_reading *find(const struct readings *readings, pid_t pid)
{
    for (size_t i = 0; i < readings->count; i++)
        if (readings->items[i].pid == pid)
            return &readings->items[i];
    return NULL;
}

static enum probe_depth deeply(void *context _unused_, const struct process_reading *begun _unused_)
{
    return PROBE_EXTRAS;
}

/* ---- fixtures ---- */

static void test_fixture(void **state _unused_)
{
    _cleanup_(procfs_freep) struct procfs *procfs = NULL;
    _cleanup_(readings_done) struct readings readings = {0};
    size_t total;

    assert_int_equal(procfs_new(FIXTURES "/proc-basic", 1000, &procfs), 0);
    /* twice: the second time from kept files */
    for (int round = 0; round < 2; round++) {
        assert_int_equal(procfs_scan(procfs, deeply, NULL, &readings, &total), 0);
        assert_int_equal(total, 8);
        assert_int_equal(readings.count, 8);

        const struct process_reading *make = find(&readings, 100);
        assert_string_equal(make->command, "make -j4 all");
        assert_true(make->reaped_user_ns + make->reaped_system_ns == INT64_C(12500000000));
        assert_true(make->cpu_ns == make->user_ns + make->system_ns); /* no clock in a fixture */
        assert_true(int_is_known(make->rss_bytes) && make->rss_bytes % 4096 == 0);

        /* of its threads; the rest is that of its children */
        assert_int_equal(make->read_bytes, 1024 + 512);
        assert_int_equal(make->write_bytes, 8192);
        assert_int_equal(make->reaped_read_bytes, 4096 - 1024 - 512);
        assert_int_equal(make->reaped_write_bytes, 0);
        assert_int_equal(find(&readings, 101)->read_bytes, 12288);
        assert_int_equal(find(&readings, 101)->reaped_read_bytes, 0);
        assert_int_equal(find(&readings, 102)->write_bytes, 0);

        const struct process_reading *kernel = find(&readings, 2);
        assert_string_equal(kernel->command, "[kthreadd]");
        assert_int_equal(kernel->rss_bytes, 0);
        assert_int_equal(kernel->open_fds, 0);

        assert_int_equal(find(&readings, 101)->state, 'Z');
        assert_int_equal(find(&readings, 102)->ppid, 100);
        assert_true(find(&readings, 102)->ignores_sigchld);
        assert_true(find(&readings, 103)->fd_limit == INT64_MAX);

        const struct process_reading *foreign = find(&readings, 104);
        assert_false(int_is_known(foreign->open_fds));
        assert_false(int_is_known(foreign->read_bytes));

        const struct process_reading *wide = find(&readings, 105);
        assert_in_range(strlen(wide->command), COMMAND_MAX_BYTES - 3, COMMAND_MAX_BYTES);
        assert_true(utf8_valid(wide->command, strlen(wide->command)));
        assert_int_equal(wide->threads, 40);
    }
    assert_int_equal(find(&readings, 1)->open_fds, 6);
}

static void test_missing_root(void **state _unused_)
{
    struct procfs *procfs = NULL;
    assert_int_equal(procfs_new("/nonexistent", 0, &procfs), -ENOENT);
    assert_null(procfs);
}

/* A temporary tree that the tests change between two scans. */
static char tree[] = "/tmp/sonde-proc.XXXXXX";

static void write_file(const char *path, const char *text)
{
    char full[PATH_MAX + sizeof(tree)];
    snprintf(full, sizeof(full), "%s/%s", tree, path);
    FILE *file = fopen(full, "w");
    fputs(text, file);
    fclose(file);
}

static void make_process(int pid, int ppid, const char *name, unsigned long start)
{
    char path[PATH_MAX], text[512];

    snprintf(path, sizeof(path), "%s/%d", tree, pid);
    mkdir(path, 0700);
    snprintf(path, sizeof(path), "%d/stat", pid);
    snprintf(text, sizeof(text),
             "%d (%s) S %d 1 1 0 -1 4194560 1 1 0 0 7 3 0 0 20 0 1 0 %lu 4096000 100 1 1 1 1 0 0 0 "
             "0 0 0 0 0 0 17 0 0 0 0 0 0 1 1 1 4096 1 1 1 0\n",
             pid, name, ppid, start);
    write_file(path, text);
    snprintf(path, sizeof(path), "%d/statm", pid);
    write_file(path, "1000 100 50 1 0 1 0\n");
}

static int make_tree(void **state _unused_)
{
    strcpy(tree, "/tmp/sonde-proc.XXXXXX");
    return mkdtemp(tree) ? 0 : -1;
}

static int remove_tree(void **state _unused_)
{
    char command[64];
    snprintf(command, sizeof(command), "rm -rf %s", tree);
    return system(command);
}

static void test_command_lines_follow_an_exec(void **state _unused_)
{
    _cleanup_(procfs_freep) struct procfs *procfs = NULL;
    _cleanup_(readings_done) struct readings readings = {0};
    size_t total;

    make_process(50, 1, "sh", 900);
    procfs_new(tree, 100, &procfs);
    procfs_scan(procfs, NULL, NULL, &readings, &total);
    assert_string_equal(find(&readings, 50)->command,
                        "[sh]"); /* no command line yet: it is read again later */
    write_file("50/cmdline", "sh");
    procfs_scan(procfs, NULL, NULL, &readings, &total);
    assert_string_equal(find(&readings, 50)->command, "sh");
    write_file("50/cmdline", "rewritten without an exec");
    procfs_scan(procfs, NULL, NULL, &readings, &total);
    assert_string_equal(find(&readings, 50)->command, "sh");
    make_process(50, 1, "make", 900); /* the same process, another program */
    procfs_scan(procfs, NULL, NULL, &readings, &total);
    assert_string_equal(find(&readings, 50)->command, "rewritten without an exec");
}

static void test_reused_pid(void **state _unused_)
{
    _cleanup_(procfs_freep) struct procfs *procfs = NULL;
    _cleanup_(readings_done) struct readings readings = {0};
    size_t total;

    for (unsigned budget = 0; budget <= 100; budget += 100) {
        make_process(50, 1, "old", 900);
        write_file("50/cmdline", "old");
        procfs_new(tree, budget, &procfs);
        procfs_scan(procfs, NULL, NULL, &readings, &total);
        make_process(50, 1, "old", 1900); /* the same name, another start */
        write_file("50/cmdline", "new");
        procfs_scan(procfs, NULL, NULL, &readings, &total);
        assert_int_equal(find(&readings, 50)->start_ticks, 1900);
        assert_string_equal(find(&readings, 50)->command, "new");
        procfs_free(TAKE_PTR(procfs));
    }
}

static void test_malformed_and_vanished_processes_are_omitted(void **state _unused_)
{
    _cleanup_(procfs_freep) struct procfs *procfs = NULL;
    _cleanup_(readings_done) struct readings readings = {0};
    char path[PATH_MAX];
    size_t total;

    make_process(50, 1, "good", 900);
    make_process(51, 1, "garbled", 900);
    write_file("51/stat", "51 (cut off");
    make_process(52, 1, "empty", 900);
    write_file("52/stat", "");
    make_process(55, 0, "dead", 900);
    write_file("55/stat",
               "55 (dead) X 0 1 1 0 -1 4194560 1 1 0 0 7 3 0 0 20 0 0 0 900 0 0 1 1 1 1 0 0 "
               "0 0 0 0 0 0 0 17 0 0 0 0 0 0 1 1 1 4096 1 1 1 0\n");
    snprintf(path, sizeof(path), "%s/53", tree);
    mkdir(path, 0700); /* an empty directory: the process has just ended */
    snprintf(path, sizeof(path), "%s/054", tree);
    mkdir(path, 0700); /* not a pid */
    procfs_new(tree, 100, &procfs);
    assert_int_equal(procfs_scan(procfs, NULL, NULL, &readings, &total), 0);
    assert_int_equal(total, 5);
    assert_int_equal(readings.count, 1);
    assert_int_equal(readings.items[0].pid, 50);
}

struct family {
    pid_t members[8];
    size_t count;
    unsigned asked;
};

/* Selects members and children of known members. */
static enum probe_depth in_family(void *context, const struct process_reading *begun)
{
    struct family *family = context;

    family->asked++;
    for (size_t i = 0; i < family->count; i++)
        if (family->members[i] == begun->pid)
            return PROBE_EXTRAS;
        else if (family->members[i] == begun->ppid) {
            family->members[family->count++] = begun->pid;
            return PROBE_EXTRAS;
        }
    return PROBE_SKIP;
}

static void test_skipped_processes_stay_skipped(void **state _unused_)
{
    _cleanup_(procfs_freep) struct procfs *procfs = NULL;
    _cleanup_(readings_done) struct readings readings = {0};
    struct family family = {.members = {60}, .count = 1};
    size_t total;

    make_process(40, 40, "stranger", 800);
    make_process(41, 40, "stranger", 801);
    make_process(42, 41, "stranger", 802);
    make_process(60, 40, "root", 900);
    make_process(61, 60, "child", 901);
    procfs_new(tree, 100, &procfs);
    procfs_scan(procfs, in_family, &family, &readings, &total);
    procfs_scan(procfs, in_family, &family, &readings, &total);
    assert_int_equal(readings.count, 2);
    family.asked = 0;
    procfs_scan(procfs, in_family, &family, &readings, &total);
    assert_int_equal(readings.count, 2);
    assert_int_equal(family.asked, 2);
    assert_int_equal(total, 5);
}

static void test_child_with_smaller_pid_is_found_later(void **state _unused_)
{
    _cleanup_(procfs_freep) struct procfs *procfs = NULL;
    _cleanup_(readings_done) struct readings readings = {0};
    struct family family = {.members = {600}, .count = 1};
    size_t total;

    make_process(600, 1, "root", 900);
    procfs_new(tree, 100, &procfs);
    procfs_scan(procfs, in_family, &family, &readings, &total);
    make_process(30, 700, "grandchild", 902); /* pids have wrapped: it is read before its parent */
    make_process(700, 600, "child", 901);
    procfs_scan(procfs, in_family, &family, &readings, &total);
    procfs_scan(procfs, in_family, &family, &readings, &total);
    assert_int_equal(readings.count, 3);
    assert_non_null(find(&readings, 30));
}

/* ---- the real /proc ---- */

static int count_own_fds(void)
{
    DIR *directory = opendir("/proc/self/fd");
    int count = 0;

    while (readdir(directory))
        count++;
    closedir(directory);
    return count - 3; /* ".", ".." and the directory itself */
}

static pid_t spawn_sleeper(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pause();
        _exit(0);
    }
    return pid;
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void test_own_process_equals_getrusage(void **state _unused_)
{
    _cleanup_(procfs_freep) struct procfs *procfs = NULL;
    _cleanup_(readings_done) struct readings readings = {0};
    pid_t self = getpid();
    struct rusage usage;
    struct rlimit limit;

    procfs_new("/proc", 0, &procfs);
    assert_int_equal(procfs_read_pids(procfs, &self, 1, &readings), 0);
    getrusage(RUSAGE_SELF, &usage);
    getrlimit(RLIMIT_NOFILE, &limit);
    const struct process_reading *me = find(&readings, self);
    int64_t cpu_ns = (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * (int64_t)NS_PER_SEC +
                     (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * (int64_t)NS_PER_USEC;

    assert_int_equal(me->ppid, getppid());
    assert_int_equal(me->uid, getuid());
    assert_int_equal(me->state, 'R');
    assert_int_equal(me->open_fds, count_own_fds());
    assert_true(me->fd_limit == (int64_t)limit.rlim_cur);
    assert_in_range(cpu_ns - me->cpu_ns, 0, 50 * NS_PER_MSEC);
    assert_true(me->peak_rss_bytes >= me->rss_bytes - (1 << 20));
    assert_non_null(strstr(me->command, "procfs"));
}

static void test_kept_files_stay_within_the_budget(void **state _unused_)
{
    _cleanup_(readings_done) struct readings readings = {0};
    pid_t children[20];
    size_t total;

    for (size_t i = 0; i < ARRAY_SIZE(children); i++)
        children[i] = spawn_sleeper();
    for (unsigned budget = 0; budget <= 30; budget += 10) {
        struct procfs *procfs;
        int before = count_own_fds();
        procfs_new("/proc", budget, &procfs);
        for (int round = 0; round < 3; round++) {
            procfs_scan(procfs, deeply, NULL, &readings, &total);
            assert_in_range(count_own_fds() - before, 1, 1 + (int)budget);
            for (size_t i = 0; i < ARRAY_SIZE(children); i++)
                assert_non_null(find(&readings, children[i]));
        }
        procfs_free(procfs);
        assert_int_equal(count_own_fds(), before);
    }
    for (size_t i = 0; i < ARRAY_SIZE(children); i++)
        end(children[i]);
}

static void test_zombies_and_gone_processes(void **state _unused_)
{
    _cleanup_(procfs_freep) struct procfs *procfs = NULL;
    _cleanup_(readings_done) struct readings readings = {0};
    siginfo_t info;
    pid_t pid = spawn_sleeper();

    procfs_new("/proc", 100, &procfs);
    procfs_read_pids(procfs, &pid, 1, &readings);
    const char *command = strdup(find(&readings, pid)->command);
    kill(pid, SIGKILL);
    waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT);
    procfs_read_pids(procfs, &pid, 1, &readings);
    assert_int_equal(find(&readings, pid)->state, 'Z');
    assert_string_equal(find(&readings, pid)->command, command); /* known from before its end */
    waitpid(pid, NULL, 0);
    assert_int_equal(procfs_read_pids(procfs, &pid, 1, &readings), 0);
    assert_int_equal(readings.count, 0);
    free((void *)(uintptr_t)command);
}

static void *stay_behind(void *unused)
{
    pause();
    return unused;
}

static void wait_until_leader_is_gone(pid_t pid)
{
    char path[64], text[512] = "";

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    while (!strstr(text, ") Z ")) {
        FILE *file = fopen(path, "r");
        assert_non_null(fgets(text, sizeof(text), file));
        fclose(file);
        usleep(1000);
    }
}

static void test_a_leader_that_has_left_its_threads(void **state _unused_)
{
    _cleanup_(procfs_freep) struct procfs *procfs = NULL;
    _cleanup_(readings_done) struct readings readings = {0};
    pid_t pid = fork();

    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        static char memory[8 << 20];
        pthread_t thread;
        explicit_bzero(memory, sizeof(memory)); /* touches it, and is not optimised away */
        pthread_create(&thread, NULL, stay_behind, NULL);
        pthread_exit(NULL);
    }
    wait_until_leader_is_gone(pid);
    procfs_new("/proc", 100, &procfs);
    assert_int_equal(procfs_read_pids(procfs, &pid, 1, &readings), 0);
    const struct process_reading *reading = find(&readings, pid);
    assert_non_null(reading);
    assert_int_equal(reading->threads, 2);
    assert_int_not_equal(reading->state, 'Z');
    assert_true(reading->rss_bytes > 8 << 20);
    assert_true(reading->open_fds > 0);
    end(pid);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fixture),
        cmocka_unit_test(test_missing_root),
        cmocka_unit_test_setup_teardown(test_command_lines_follow_an_exec, make_tree, remove_tree),
        cmocka_unit_test_setup_teardown(test_reused_pid, make_tree, remove_tree),
        cmocka_unit_test_setup_teardown(test_malformed_and_vanished_processes_are_omitted,
                                        make_tree, remove_tree),
        cmocka_unit_test_setup_teardown(test_skipped_processes_stay_skipped, make_tree,
                                        remove_tree),
        cmocka_unit_test_setup_teardown(test_child_with_smaller_pid_is_found_later, make_tree,
                                        remove_tree),
        cmocka_unit_test(test_own_process_equals_getrusage),
        cmocka_unit_test(test_kept_files_stay_within_the_budget),
        cmocka_unit_test(test_zombies_and_gone_processes),
        cmocka_unit_test(test_a_leader_that_has_left_its_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
