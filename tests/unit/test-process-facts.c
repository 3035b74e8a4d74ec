/* The facts of a process that rules match: the parsers, fixture trees, and this process itself. */
#include "parse.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd-io.h"
#include "base/macros.h"
#include "base/text.h"
#include "base/utf8.h"
#include "base/vec.h"
#include "probe/last-pid.h"
#include "probe/proc-children.h"
#include "probe/proc-environ.h"
#include "probe/process-children.h"
#include "probe/process-facts.h"

/* ---- environ ---- */

static const char *names[] = {"A", "LONG_NAME", "PATH"};
static const struct text_list wanted = {.items = names, .count = ARRAY_SIZE(names)};

#define ENVIRON(bytes, values) proc_environ_parse(bytes, sizeof(bytes) - 1, &wanted, values)

static void assert_line(struct line line, const char *text)
{
    assert_non_null(line.at);
    assert_int_equal(line.end - line.at, strlen(text));
    assert_memory_equal(line.at, text, strlen(text));
}

static void test_variables_are_found(void **state _unused_)
{
    struct line values[3];

    ENVIRON("X=1\0PATH=/bin:/usr/bin\0A=a=b\0A=2\0", values);
    assert_line(values[0], "a=b"); /* the first one, up to its end */
    assert_null(values[1].at);
    assert_line(values[2], "/bin:/usr/bin");

    ENVIRON("AB=1\0=A\0A\0LONG_NAM=1\0LONG_NAME=\0\0\0PATH=x", values);
    assert_null(values[0].at);
    assert_line(values[1], "");
    assert_null(values[2].at); /* cut, perhaps within the value */

    ENVIRON("", values);
    assert_null(values[0].at);
    ENVIRON("\0\0\0", values);
    assert_null(values[0].at);
}

/* ---- the last pid ---- */

static int parse_last_pid(const char *text, pid_t *ret)
{
    _cleanup_free_ char *copy = strdup(text); /* exact size: sanitizers detect reads past the end */

    return last_pid_parse(copy, strlen(text), ret);
}

static void test_last_pid_as_text(void **state _unused_)
{
    pid_t pid = -1;

    assert_int_equal(parse_last_pid("16765\n", &pid), 0);
    assert_int_equal(pid, 16765);
    for (const char *const *bad =
             (const char *const[]){"", "\n", "16765", "x\n", "-1\n", "99999999999\n", NULL};
         *bad; bad++)
        assert_int_equal(parse_last_pid(*bad, &pid), -EBADMSG);
}

static void test_last_pid_moves_with_each_birth(void **state _unused_)
{
    _cleanup_close_ int root_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    _cleanup_close_ int fd = last_pid_open(root_fd);

    if (fd == -ENOENT)
        skip(); /* a kernel without CONFIG_CHECKPOINT_RESTORE */
    for (int i = 0; i < 3; i++) {
        pid_t before, after;

        assert_int_equal(last_pid_read(fd, &before), 0);
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        assert_int_equal(last_pid_read(fd, &after), 0);
        assert_int_not_equal(before, after);
        assert_int_equal(waitpid(child, NULL, 0), child);
    }
}

/* ---- children ---- */

struct VEC(pid_t) children;

static int note_child(void *context, pid_t pid)
{
    if (pid == 666)
        return -ECANCELED;
    assert_null(context);
    return VEC_PUSH(&children, pid);
}

static int parse_children(const char *text)
{
    char *copy = strdup(text); /* so that the address sanitizer sees every read past it */
    children.count = 0;
    int r = proc_children_parse(copy, strlen(text), note_child, NULL);
    free(copy);
    return r;
}

static void test_lists_of_children(void **state _unused_)
{
    assert_int_equal(parse_children(""), 0);
    assert_int_equal(children.count, 0);
    assert_int_equal(parse_children("101 102 4194304 "), 0);
    assert_int_equal(children.count, 3);
    assert_int_equal(children.items[2], 4194304);
    assert_int_equal(parse_children("101 10"), 0); /* the second one is cut */
    assert_int_equal(children.count, 1);
    assert_int_equal(parse_children("101\n"), 0);
    assert_int_equal(children.count, 1);
    assert_int_equal(parse_children("1 0 "), -EBADMSG);
    assert_int_equal(parse_children("-1 "), -EBADMSG);
    assert_int_equal(parse_children("1  2 "), -EBADMSG);
    assert_int_equal(parse_children("x"), -EBADMSG);
    assert_int_equal(parse_children("1x "), -EBADMSG);
    assert_int_equal(parse_children("2147483648 "), -EBADMSG);
    assert_int_equal(parse_children("99999999999999999999 "), -EBADMSG);
    assert_int_equal(parse_children("1 666 2 "), -ECANCELED);
    assert_int_equal(children.count, 1);
    VEC_DONE(&children);
}

/* ---- a tree of files ---- */

static char root[64];
static int root_fd;
static struct arena arena;

static int set_up(void **state _unused_)
{
    strcpy(root, "/tmp/sonde-test-XXXXXX");
    assert_non_null(mkdtemp(root));
    root_fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return root_fd < 0;
}

static int tear_down(void **state _unused_)
{
    char command[128];

    close(root_fd);
    arena_done(&arena);
    snprintf(command, sizeof(command), "rm -rf '%s'", root);
    return system(command);
}

static void put(const char *path, const char *bytes, size_t length)
{
    char whole[256];

    snprintf(whole, sizeof(whole), "%s/%s", root, path);
    for (char *slash = whole + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(whole, 0700);
        *slash = '/';
    }
    _cleanup_close_ int fd = open(whole, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, bytes, length), 0);
}

#define PUT(path, text) put(path, text, sizeof(text) - 1)

static void put_link(const char *path, const char *target)
{
    char whole[256];

    snprintf(whole, sizeof(whole), "%s/%s", root, path);
    unlink(whole);
    assert_int_equal(symlink(target, whole), 0);
}

static const struct fact_request all = {
    .facts = FACT_COMMAND | FACT_CWD | FACT_CGROUP | FACT_ENVIRONMENT,
    .names = {.items = names, .count = ARRAY_SIZE(names)},
};

static struct process_facts facts_of(pid_t pid)
{
    struct process_facts facts;

    assert_int_equal(process_facts_read(root_fd, pid, &all, &arena, &facts), 0);
    return facts;
}

/* 512 numbers of 8 bytes fill the page that the kernel gives at a time. */
static void test_long_list_of_children_is_read_to_its_end(void **state _unused_)
{
    enum { COUNT = 1300 };
    _cleanup_text_ struct text list = {0};

    for (int i = 0; i < COUNT; i++)
        text_printf(&list, "%d ", 1000000 + i);
    put("7/task/7/children", list.bytes, list.length);
    children.count = 0;
    assert_int_equal(process_children_read(root_fd, 7, 1, -1, note_child, NULL), 0);
    assert_int_equal(children.count, COUNT);
    assert_int_equal(children.items[COUNT - 1], 1000000 + COUNT - 1);

    _cleanup_close_ int fd = process_children_open(root_fd, 7);
    assert_true(fd >= 0);
    children.count = 0;
    assert_int_equal(process_children_read(root_fd, 7, 1, fd, note_child, NULL), 0);
    assert_int_equal(children.count, COUNT);
    VEC_DONE(&children);
}

static void test_children_of_all_threads(void **state _unused_)
{
    PUT("7/task/7/children", "101 ");
    PUT("7/task/8/children", "102 103 ");
    PUT("7/task/9/stat", ""); /* a thread that is gone by now */
    children.count = 0;
    assert_int_equal(process_children_read(root_fd, 7, 3, -1, note_child, NULL), 0);
    assert_int_equal(children.count, 3);
    int sum = 0;
    for (size_t i = 0; i < children.count; i++)
        sum += children.items[i];
    assert_int_equal(sum, 101 + 102 + 103);

    PUT("7/task/8/children", "666 ");
    assert_int_equal(process_children_read(root_fd, 7, 3, -1, note_child, NULL), -ECANCELED);
    PUT("7/task/8/children", "x");
    assert_int_equal(process_children_read(root_fd, 7, 3, -1, note_child, NULL), -EBADMSG);
    VEC_DONE(&children);
}

/* A process that has ended, and a kernel without such lists. */
static void test_children_that_cannot_be_read(void **state _unused_)
{
    PUT("7/task/7/stat", "");
    assert_int_equal(process_children_open(root_fd, 7), -EOPNOTSUPP);
    assert_int_equal(process_children_read(root_fd, 7, 1, -1, note_child, NULL), -EOPNOTSUPP);
    assert_int_equal(process_children_open(root_fd, 8), -ESRCH);
    assert_int_equal(process_children_read(root_fd, 8, 1, -1, note_child, NULL), -ESRCH);
    assert_int_equal(process_children_read(root_fd, 8, 2, -1, note_child, NULL), -ESRCH);
    PUT("9/task/9", "no directory");
    assert_int_equal(process_children_open(root_fd, 9), -ENOTDIR);
}

static void test_all_facts(void **state _unused_)
{
    PUT("7/cmdline", "make\0-C\0/work\0");
    PUT("7/environ", "A=1\0PATH=/bin\xff\0");
    PUT("7/cgroup", "0::/user.slice/x.scope\n");
    PUT("7/status", "Name:\tmake\nUid:\t1000\t1000\t1000\t1000\n");
    put_link("7/cwd", "/work/dir");
    struct process_facts facts = facts_of(7);

    assert_string_equal(facts.command, "make -C /work");
    assert_string_equal(facts.cwd, "/work/dir");
    assert_string_equal(facts.cgroup, "/user.slice/x.scope");
    assert_int_equal(facts.uid, 1000);
    assert_int_equal(facts.values.count, 3);
    assert_string_equal(facts.values.items[0], "1");
    assert_null(facts.values.items[1]);
    assert_string_equal(facts.values.items[2], "/bin\uFFFD");
}

static void test_only_what_is_asked_for(void **state _unused_)
{
    const struct fact_request cwd_alone = {.facts = FACT_CWD};
    struct process_facts facts;

    PUT("7/cmdline", "make\0");
    put_link("7/cwd", "/work");
    assert_int_equal(process_facts_read(root_fd, 7, &cwd_alone, &arena, &facts), 0);
    assert_null(facts.command);
    assert_string_equal(facts.cwd, "/work");
    assert_int_equal(facts.values.count, 0);
}

static void test_unreadable_facts_are_null(void **state _unused_)
{
    struct process_facts facts;

    PUT("8/stat", "");
    facts = facts_of(8);
    assert_null(facts.command);
    assert_null(facts.cwd);
    assert_null(facts.cgroup);
    assert_int_equal(facts.values.count, 3);
    assert_null(facts.values.items[0]);
    assert_false(int_is_known(facts.uid));

    PUT("8/cmdline", ""); /* a kernel thread, a zombie */
    PUT("8/cgroup", "garbage\n");
    PUT("8/status", "Uid:\tx\n");
    put_link("8/cwd", "pipe:[1]");
    facts = facts_of(8);
    assert_null(facts.command);
    assert_null(facts.cgroup);
    assert_null(facts.cwd);
    assert_false(int_is_known(facts.uid));

    assert_int_equal(process_facts_read(root_fd, 9, &all, &arena, &facts), -ESRCH);
}

static void test_a_deleted_directory_keeps_its_name(void **state _unused_)
{
    char odd[256];

    PUT("7/stat", "");
    put_link("7/cwd", "/no/such/dir (deleted)");
    assert_string_equal(facts_of(7).cwd, "/no/such/dir");
    put_link("7/cwd", " (deleted)");
    assert_null(facts_of(7).cwd);

    /* a directory whose real name ends with the suffix */
    snprintf(odd, sizeof(odd), "%s/odd (deleted)", root);
    assert_int_equal(mkdir(odd, 0700), 0);
    put_link("7/cwd", odd);
    assert_string_equal(facts_of(7).cwd, odd);
}

static void test_choice_of_cgroup_hierarchy(void **state _unused_)
{
    PUT("7/cgroup", "4:memory:/docker/abc\n2:cpu,cpuacct:/\n0::/\n");
    assert_string_equal(facts_of(7).cgroup, "/docker/abc");
    PUT("7/cgroup", "4:memory:/docker/abc\n0::/init.scope\n");
    assert_string_equal(facts_of(7).cgroup, "/init.scope");
    PUT("7/cgroup", "9:pids:/p\n");
    assert_string_equal(facts_of(7).cgroup, "/p");
    PUT("7/cgroup", "0::/\n");
    assert_string_equal(facts_of(7).cgroup, "/");
    PUT("7/cgroup", "1:name=systemd:/x\n");
    assert_null(facts_of(7).cgroup);
    PUT("7/cgroup", "0::/bad\xff\n");
    assert_string_equal(facts_of(7).cgroup, "/bad\uFFFD");
}

static void test_long_values_are_cut(void **state _unused_)
{
    size_t length = FACT_MAX_BYTES + 100;
    _cleanup_free_ char *bytes = malloc(length);

    memset(bytes, 'x', length);
    put("7/cmdline", bytes, length);
    put("7/environ", bytes, length);
    struct process_facts facts = facts_of(7);
    assert_int_equal(strlen(facts.command), FACT_MAX_BYTES);
    assert_null(facts.values.items[0]);

    /* each bad byte takes the room of three */
    memset(bytes, 0xff, length);
    put("7/cmdline", bytes, length);
    facts = facts_of(7);
    assert_in_range(strlen(facts.command), FACT_MAX_BYTES - 3, FACT_MAX_BYTES);
    assert_true(utf8_valid(facts.command, strlen(facts.command)));

    /* a truncated variable is omitted; those before it are read */
    memset(bytes, 'x', length);
    memcpy(bytes, "A=1\0PATH=", 9);
    put("7/environ", bytes, length);
    facts = facts_of(7);
    assert_string_equal(facts.values.items[0], "1");
    assert_null(facts.values.items[2]);
}

/* ---- descendants ---- */

struct kin {
    pid_t pid, ppid;
};

static struct VEC(struct kin) found;

static void note_kin(void *context _unused_, pid_t pid, pid_t ppid)
{
    assert_int_equal(VEC_PUSH(&found, (struct kin){pid, ppid}), 0);
}

static int descend(int fd, pid_t pid)
{
    found.count = 0;
    return process_descendants_read(fd, pid, note_kin, NULL);
}

static void test_descendants_of_all_threads(void **state _unused_)
{
    PUT("10/task/10/children", "20 21 ");
    PUT("10/task/11/children", "22 ");
    PUT("20/task/20/children", "");
    PUT("21/task/21/children", "30 ");
    PUT("22/task/22/children", "31 99 "); /* 99 is gone */
    PUT("30/task/30/children", "40 ");
    PUT("31/task/31/children", "");
    PUT("40/task/40/children", "10 21 40 "); /* a cycle, which cannot happen */
    assert_int_equal(descend(root_fd, 10), 0);
    assert_int_equal(found.count, 7);
    for (size_t i = 0; i < found.count; i++) {
        bool parent_is_before = found.items[i].ppid == 10;
        for (size_t j = 0; j < i; j++) {
            parent_is_before |= found.items[j].pid == found.items[i].ppid;
            assert_int_not_equal(found.items[j].pid, found.items[i].pid);
        }
        assert_true(parent_is_before);
    }
    assert_int_equal(descend(root_fd, 30), 0);
    assert_int_equal(found.items[0].pid, 40);
    assert_int_equal(found.items[0].ppid, 30);
    assert_int_equal(descend(root_fd, 31), 0);
    assert_int_equal(found.count, 0);
    VEC_DONE(&found);
}

static void test_descendants_that_cannot_be_read(void **state _unused_)
{
    PUT("10/task/10/stat", "");
    assert_int_equal(descend(root_fd, 10), -EOPNOTSUPP);
    assert_int_equal(descend(root_fd, 11), -ESRCH);
    PUT("10/task/10/children", "12 garbage ");
    assert_int_equal(descend(root_fd, 10), -EBADMSG);
    assert_int_equal(found.count, 1);
    VEC_DONE(&found);
}

static void test_descendants_are_bounded(void **state _unused_)
{
    size_t length = 0;
    _cleanup_free_ char *bytes = malloc(70000 * 8);

    for (int i = 0; i < 70000; i++)
        length += (size_t)sprintf(bytes + length, "%d ", 100 + i);
    put("10/task/10/children", bytes, length);
    assert_int_equal(descend(root_fd, 10), -E2BIG);
    assert_in_range(found.count, 60000, 65536);
    VEC_DONE(&found);
}

/* ---- this machine ---- */

static void test_this_process(void **state _unused_)
{
    _cleanup_close_ int proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    const char *variable[] = {"SONDE_TEST_FACT"};
    const struct fact_request request = {.facts = all.facts,
                                         .names = {.items = variable, .count = 1}};
    char cwd[PATH_MAX];
    struct process_facts facts;

    /* The kernel shows the initial environment of a process, so the test starts a child with it. */
    pid_t pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
        setenv("SONDE_TEST_FACT", "a value", 1);
        execl("/bin/sh", "sh", "-c", "sleep 60 & wait; :", "two words", (char *)NULL);
        _exit(127);
    }
    assert_true(pid > 0);
    for (;;) { /* until the exec has happened */
        assert_int_equal(process_facts_read(proc_fd, pid, &request, &arena, &facts), 0);
        if (facts.command && strstr(facts.command, "two words") && facts.values.items[0])
            break;
    }
    assert_string_equal(facts.values.items[0], "a value");
    assert_non_null(getcwd(cwd, sizeof(cwd)));
    assert_string_equal(facts.cwd, cwd);
    assert_int_equal(facts.uid, getuid());

    int r;
    do
        r = descend(proc_fd, getpid());
    while (r == 0 && found.count < 2);
    if (r == 0) {
        assert_int_equal(found.items[0].pid, pid);
        assert_int_equal(found.items[0].ppid, getpid());
        assert_int_equal(found.items[1].ppid, pid);
    } else {
        assert_int_equal(r, -EOPNOTSUPP); /* a kernel without such lists */
    }
    kill(-pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(process_facts_read(proc_fd, pid, &request, &arena, &facts), -ESRCH);
    VEC_DONE(&found);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_variables_are_found),
        cmocka_unit_test(test_last_pid_as_text),
        cmocka_unit_test(test_last_pid_moves_with_each_birth),
        cmocka_unit_test(test_lists_of_children),
        T(test_long_list_of_children_is_read_to_its_end),
        T(test_children_of_all_threads),
        T(test_children_that_cannot_be_read),
        T(test_all_facts),
        T(test_only_what_is_asked_for),
        T(test_unreadable_facts_are_null),
        T(test_a_deleted_directory_keeps_its_name),
        T(test_choice_of_cgroup_hierarchy),
        T(test_long_values_are_cut),
        T(test_descendants_of_all_threads),
        T(test_descendants_that_cannot_be_read),
        T(test_descendants_are_bounded),
        T(test_this_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
