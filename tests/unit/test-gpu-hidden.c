/* Clients of a GPU where not all processes are visible: hidden processes, namespaces, and this
 * machine itself. */
#include "gpu-clients-world.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <grp.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/macros.h"
#include "probe/pid-namespace.h"

/* ---- hidden processes ---- */

static void become(uid_t uid)
{
    assert_int_equal(getuid() == 0 ? seteuid(uid) : 0, 0);
}

/* Some processes cannot be read, so the load is unknown. Hidden are their descriptors or, as with
 * hidepid=noaccess, all their files. (Root can read everything.) */
static void test_hidden_processes(void **state)
{
    static const char *const hidden[] = {"100/fd", "100"};
    const struct gpu_world *world = *state;
    char path[PATH_MAX];

    world_put_process(world, 100, 50);
    snprintf(path, sizeof(path), "%s/100", world->proc);
    assert_int_equal(chmod(path, 0755) | chmod(world->proc, 0755) | chmod(world->dir, 0755), 0);
    snprintf(path, sizeof(path), "%s/100/fd", world->proc);
    assert_int_equal(chmod(path, 0755), 0);
    for (size_t i = 0; i < ARRAY_SIZE(hidden); i++) {
        struct drm_clients *clients = new_clients(world);
        snprintf(path, sizeof(path), "%s/%s", world->proc, hidden[i]);
        assert_int_equal(chmod(path, 0), 0);
        become(65534);
        busy_of(clients, &i915, 1);
        assert_true(isnan(busy_of(clients, &i915, 2)));
        become(0);
        assert_int_equal(chmod(path, 0755), 0);
        become(65534);
        assert_true(busy_of(clients, &i915, 3) == 0); /* seen by the next walk */
        become(0);
        drm_clients_free(clients);
    }
}

/* hidepid=invisible: pid 1 always exists, so its absence shows that processes are hidden. */
static void test_unlisted_processes(void **state)
{
    const struct gpu_world *world = *state;

    world_put_process(world, getpid(), 40);
    link_self(world);
    struct drm_clients *clients = new_clients(world);
    busy_of(clients, &i915, 1);
    assert_true(isnan(busy_of(clients, &i915, 2)));
    world_put_process(world, 1, 1);
    assert_true(busy_of(clients, &i915, 3) == 0);
    drm_clients_free(clients);
}

/* Mount options of /proc, as another user; and as root in a new pid namespace, which shows only a
 * part of the machine. */
static const struct {
    const char *options;
    bool in_namespace;
    bool is_root;
    bool is_known;
} proc_mounts[] = {
    {"hidepid=0", .is_root = true, .is_known = true},
    {"hidepid=2", .is_root = true, .is_known = true},
    {"hidepid=0"},
    {"hidepid=1"},
    {"hidepid=2"},
    {"hidepid=0", .in_namespace = true, .is_root = true},
};

enum { KNOWN = 10, UNKNOWN, NOT_ALLOWED };

/* Members of root's group see what is hidden. */
static int drop_privileges(void)
{
    return setgroups(0, NULL) < 0 || setresgid(65534, 65534, 65534) < 0 ||
                   setresuid(65534, 65534, 65534) < 0
               ? -1
               : prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

static int read_mount(const struct gpu_world *world, size_t i)
{
    struct drm_clients *clients = NULL;

    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("proc", world->proc, "proc", 0, proc_mounts[i].options) < 0 ||
        (!proc_mounts[i].is_root && drop_privileges() < 0) ||
        drm_clients_new(world->proc, &clients) < 0)
        return NOT_ALLOWED;
    busy_of(clients, &i915, 1);
    bool is_known = !isnan(busy_of(clients, &i915, 2));
    drm_clients_free(clients);
    return is_known ? KNOWN : UNKNOWN;
}

static int status_of(pid_t pid)
{
    int status = 0;

    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* A child for each, with private mounts. */
static int read_in_child(const struct gpu_world *world, size_t i)
{
    const bool in_namespace = proc_mounts[i].in_namespace;
    pid_t pid = fork();

    if (pid == 0) {
        if (unshare(CLONE_NEWNS | (in_namespace ? CLONE_NEWPID : 0)) < 0)
            _exit(NOT_ALLOWED);
        pid = in_namespace ? fork() : 0; /* the child is the namespace's first */
        _exit(pid == 0 ? read_mount(world, i) : status_of(pid));
    }
    return status_of(pid);
}

static int is_refused(const char *path _unused_, int error)
{
    return error != ENOENT && error != ESRCH;
}

/* Whether all processes of this machine can be read from here, determined in another way. */
static bool sees_all(void)
{
    glob_t found = {0};
    char target[PATH_MAX];
    struct stat st;

    if (stat("/proc/self/ns/pid", &st) < 0 || st.st_ino != INITIAL_PID_NAMESPACE)
        return false;
    int r = glob("/proc/[0-9]*/fd/*", GLOB_NOSORT, is_refused, &found);
    for (size_t i = 0; r == 0 && i < found.gl_pathc; i++)
        if (readlink(found.gl_pathv[i], target, sizeof(target)) < 0 && is_refused(NULL, errno))
            r = -1;
    globfree(&found);
    return r == 0;
}

static void test_mounts_that_hide_processes(void **state)
{
    const struct gpu_world *world = *state;

    assert_int_equal(chmod(world->proc, 0755) | chmod(world->dir, 0755), 0);
    for (size_t i = 0; i < ARRAY_SIZE(proc_mounts); i++) {
        int result = read_in_child(world, i);
        if (result == NOT_ALLOWED)
            skip();
        assert_int_equal(result, proc_mounts[i].is_known && sees_all() ? KNOWN : UNKNOWN);
    }
}

/* ---- this machine ---- */

/* Device numbers that no card has. */
static const struct drm_device no_card = {.pdev = "none", .card = 61001, .render = 61002};

/* A child with a private /dev that opens ('o') and closes ('c') a node there on request. It answers
 * with the same letter when that is done, and with 'n' if it cannot. */
static void hold_node(int orders_fd, int answers_fd)
{
    char order;
    int node_fd = -1;

    if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("none", "/dev", "tmpfs", 0, NULL) < 0 || mkdir("/dev/dri", 0755) < 0)
        _exit(write(answers_fd, "n", 1) != 1);
    while (read(orders_fd, &order, 1) == 1) {
        if (order == 'o')
            node_fd = open("/dev/dri/renderD61002", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (order == 'c')
            close(node_fd);
        if (write(answers_fd, order == 'o' && node_fd < 0 ? "n" : &order, 1) != 1)
            break;
    }
    _exit(0);
}

static bool send_order(int orders_fd, int answers_fd, char order)
{
    char answer = 'n';

    return write(orders_fd, &order, 1) == 1 && read(answers_fd, &answer, 1) == 1 && answer == order;
}

/* Real descriptors in a fake tree. */
static void put_descriptors_of(const struct gpu_world *world, pid_t pid)
{
    static const char *const names[] = {"fd", "fdinfo"};
    char path[PATH_MAX], target[64];

    snprintf(path, sizeof(path), "proc/%d/stat", (int)pid);
    world_put(world, path, "%s", "");
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        snprintf(path, sizeof(path), "%s/%d/%s", world->proc, (int)pid, names[i]);
        snprintf(target, sizeof(target), "/proc/%d/%s", (int)pid, names[i]);
        assert_int_equal(symlink(target, path), 0);
    }
}

/* A regular file instead of a node has no figures, so it shows as an unknown load. */
static void watch_child(struct drm_clients *clients, int orders_fd, int answers_fd)
{
    busy_of(clients, &no_card, 1);
    assert_true(busy_of(clients, &no_card, 2) == 0);
    for (unsigned age = 3; age < 9; age += 3) {
        assert_true(send_order(orders_fd, answers_fd, 'o'));
        assert_true(isnan(busy_of(clients, &no_card, age)));
        assert_true(isnan(busy_of(clients, &no_card, age + 1)));
        assert_true(send_order(orders_fd, answers_fd, 'c'));
        assert_true(busy_of(clients, &no_card, age + 2) == 0);
    }
}

static void test_real_descriptors(void **state)
{
    const struct gpu_world *world = *state;
    int orders[2], answers[2];

    assert_int_equal(pipe2(orders, O_CLOEXEC) | pipe2(answers, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(orders[1]);
        hold_node(orders[0], answers[1]);
    }
    close(orders[0]);
    close(answers[1]);
    if (!send_order(orders[1], answers[0], 'r')) /* a private /dev is not permitted */
        skip();
    link_self(world);
    put_descriptors_of(world, getpid());
    put_descriptors_of(world, pid);
    world_put_process(world, 1, 1);
    struct drm_clients *clients = new_clients(world);
    watch_child(clients, orders[1], answers[0]);
    drm_clients_free(clients);
    close(orders[1]);
    close(answers[0]);
    assert_int_equal(status_of(pid), 0);
}

/* No process has a file of this device; checks whether that can be known. */
static void test_real_proc(void **state _unused_)
{
    struct drm_clients *clients = NULL;

    assert_int_equal(drm_clients_new("/proc", &clients), 0);
    assert_true(isnan(busy_of(clients, &no_card, 1)));
    assert_int_equal(isnan(busy_of(clients, &no_card, 2)), !sees_all());
    drm_clients_free(clients);
    assert_int_equal(drm_clients_new("/nowhere", &clients), -ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORLD_TEST(test_hidden_processes),
        WORLD_TEST(test_unlisted_processes),
        WORLD_TEST(test_mounts_that_hide_processes),
        WORLD_TEST(test_real_descriptors),
        cmocka_unit_test(test_real_proc),
    };
    return cmocka_run_group_tests_name("gpu-hidden", tests, NULL, NULL);
}
