/* The system probe and the cgroup limits: fixture trees with exact values, then this machine. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd-io.h"
#include "base/macros.h"
#include "model/process.h"
#include "probe/proc-cmdline.h"
#include "probe/proc-io.h"
#include "probe/proc-limits.h"
#include "probe/proc-stat.h"
#include "probe/proc-statm.h"
#include "probe/proc-status.h"
#include "probe/system.h"

#define GB (INT64_C(1) << 30)

/* Two reals that must be the same to the last bit. */
#define assert_real(a, b) assert_true((a) == (b))

static struct cgroup_limits limits_of(const char *cgroup_root, const char *self_cgroup)
{
    _cleanup_free_ struct cgroup_paths *paths = calloc(1, sizeof(*paths));
    _cleanup_close_ int root_fd = open(cgroup_root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct cgroup_bounds bounds = {0};
    struct cgroup_limits limits;

    assert_non_null(paths);
    assert_true(root_fd >= 0);
    assert_int_equal(cgroup_paths_parse(self_cgroup, strlen(self_cgroup), paths), 0);
    cgroup_limits_read(root_fd, paths, &bounds, &limits);
    /* a later reading through the kept descriptors gives the same */
    assert_true(cgroup_bounds_read(&bounds) == limits.memory_available_bytes);
    cgroup_bounds_done(&bounds);
    return limits;
}

static void assert_no_limits(struct cgroup_limits limits)
{
    assert_false(int_is_known(limits.memory_limit_bytes));
    assert_false(int_is_known(limits.memory_available_bytes));
    assert_false(real_is_known(limits.cpu_count));
    assert_false(int_is_known(limits.pids_limit));
}

static void test_version_2_uses_the_smallest_limit_of_all_ancestors(void **state)
{
    (void)state;
    struct cgroup_limits limits = limits_of(FIXTURES "/cgroup-v2", "0::/user.slice/app.scope\n");

    assert_true(limits.memory_limit_bytes == 4 * GB);
    assert_true(limits.memory_available_bytes == 1 * GB);
    assert_real(limits.cpu_count, 1.5);
    assert_int_equal(limits.pids_limit, 512);

    limits = limits_of(FIXTURES "/cgroup-v2", "0::/user.slice/free.scope\n");
    assert_true(limits.memory_limit_bytes == 8 * GB);
    assert_true(limits.memory_available_bytes == 1 * GB);
    assert_real(limits.cpu_count, 3.0);
    assert_false(int_is_known(limits.pids_limit));

    assert_no_limits(limits_of(FIXTURES "/cgroup-v2", "0::/\n"));
    assert_no_limits(limits_of(FIXTURES "/cgroup-v2", "0::/user.slice/gone\n"));
    assert_no_limits(limits_of(FIXTURES "/cgroup-v2", ""));
}

static void test_version_1_has_one_tree_per_controller(void **state)
{
    (void)state;
    struct cgroup_limits limits =
        limits_of(FIXTURES "/cgroup-v1", "9:pids:/docker/abc\n4:memory:/docker/abc\n"
                                         "2:cpu,cpuacct:/docker/abc\n1:name=systemd:/docker/abc\n");

    assert_true(limits.memory_limit_bytes == 2 * GB);
    assert_true(limits.memory_available_bytes == 1 * GB);
    assert_real(limits.cpu_count, 0.5);
    assert_int_equal(limits.pids_limit, 64);

    assert_no_limits(limits_of(FIXTURES "/cgroup-v1", "9:pids:/\n4:memory:/\n2:cpu,cpuacct:/\n"));
}

static void test_hybrid_reads_each_controller_from_its_tree(void **state)
{
    (void)state;
    struct cgroup_limits limits =
        limits_of(FIXTURES "/cgroup-hybrid",
                  "4:memory:/job\n2:cpu,cpuacct:/job\n1:name=systemd:/\n0::/job\n");

    assert_true(limits.memory_limit_bytes == 3 * GB);
    assert_true(limits.memory_available_bytes == 2 * GB);
    assert_real(limits.cpu_count, 2.5);
    assert_int_equal(limits.pids_limit, 33);
}

static void test_container_without_a_namespace_uses_the_root_of_the_mount(void **state)
{
    (void)state;
    struct cgroup_limits limits =
        limits_of(FIXTURES "/cgroup-container",
                  "9:pids:/docker/0123abcd\n4:memory:/docker/0123abcd\n2:cpu:/docker/0123abcd\n");

    assert_true(limits.memory_limit_bytes == 1 * GB);
    assert_true(limits.memory_available_bytes == 1 * GB - GB / 8);
    assert_real(limits.cpu_count, 2.0);
    assert_int_equal(limits.pids_limit, 1000);
}

static void put_file(const char *root, const char *name, const char *text)
{
    char path[512];

    snprintf(path, sizeof(path), "%s/%s", root, name);
    _cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
}

static void drop_file(const char *root, const char *name)
{
    char path[512];

    snprintf(path, sizeof(path), "%s/%s", root, name);
    remove(path);
}

static void test_available_memory_is_never_negative(void **state)
{
    (void)state;
    char root[] = "/tmp/sonde-test-XXXXXX";

    assert_non_null(mkdtemp(root));
    put_file(root, "cgroup.controllers", "memory\n");
    put_file(root, "memory.max", "1000\n");
    put_file(root, "memory.current", "5000\n");
    struct cgroup_limits limits = limits_of(root, "0::/\n");
    assert_int_equal(limits.memory_available_bytes, 0);

    /* statistics that lag behind do not make more memory available than the limit */
    put_file(root, "memory.current", "500\n");
    put_file(root, "memory.stat", "inactive_file 9223372036854775807\n");
    limits = limits_of(root, "0::/\n");
    assert_int_equal(limits.memory_available_bytes, 1000);

    drop_file(root, "memory.current");
    limits = limits_of(root, "0::/\n");
    assert_int_equal(limits.memory_limit_bytes, 1000);
    assert_false(int_is_known(limits.memory_available_bytes));

    put_file(root, "memory.max", "garbage\n");
    assert_no_limits(limits_of(root, "0::/\n"));

    drop_file(root, "cgroup.controllers");
    drop_file(root, "memory.max");
    drop_file(root, "memory.stat");
    drop_file(root, "");
}

static void test_machine_of_the_fixture(void **state)
{
    (void)state;
    _cleanup_(system_probe_freep) struct system_probe *probe = NULL;
    struct system_reading reading;

    assert_int_equal(system_probe_new(FIXTURES "/proc-basic", FIXTURES "/missing", &probe), 0);
    for (int i = 0; i < 2; i++) { /* the second time from the kept descriptors */
        system_probe_read(probe, 0, &reading);
        assert_true(reading.memory_total_bytes == INT64_C(16384000) * 1024);
        assert_true(reading.memory_available_bytes == INT64_C(12000000) * 1024);
        assert_real(reading.load.avg_1, 0.52);
        assert_real(reading.load.avg_5, 0.38);
        assert_real(reading.load.avg_15, 2.21);
        assert_true(reading.cpu_known);
        assert_int_equal(reading.cpu.busy, 4000 + 100 + 2000 + 30 + 70);
        assert_int_equal(reading.cpu.idle, 90000 + 500);
        assert_int_equal(reading.cpu.stolen, 11);
        assert_real(reading.cpu_online, 4.0);
        assert_real(reading.cpu_count, 4.0);
        assert_real(reading.psi.cpu.some_avg10, 1.25);
        assert_false(real_is_known(reading.psi.cpu.full_avg10));
        assert_real(reading.psi.memory.some_avg10, 3.5);
        assert_real(reading.psi.memory.full_avg10, 2.75);
        assert_real(reading.psi.io.full_avg10, 0.0);
    }
}

static void test_machine_of_the_fixture_in_a_cgroup(void **state)
{
    (void)state;
    _cleanup_(system_probe_freep) struct system_probe *probe = NULL;
    struct system_reading reading;

    assert_int_equal(system_probe_new(FIXTURES "/proc-basic", FIXTURES "/cgroup-v2", &probe), 0);
    system_probe_read(probe, 0, &reading);
    assert_true(reading.memory_total_bytes == 4 * GB);
    assert_true(reading.memory_available_bytes == 1 * GB);
    assert_real(reading.cpu_online, 4.0);
    assert_real(reading.cpu_count, 1.5);
    assert_int_equal(reading.cpu.stolen, 11);
}

/* A synthetic machine whose limits and usage change. */
static void test_limits_are_read_again(void **state)
{
    (void)state;
    char root[] = "/tmp/sonde-test-XXXXXX", path[512];
    _cleanup_(system_probe_freep) struct system_probe *probe = NULL;
    struct system_reading reading;
    const uint64_t start_ns = 1000 * NS_PER_SEC;

    assert_non_null(mkdtemp(root));
    snprintf(path, sizeof(path), "%s/self", root);
    assert_int_equal(mkdir(path, 0700), 0);
    put_file(root, "self/cgroup", "0::/\n");
    put_file(root, "meminfo", "MemTotal: 100 kB\nMemAvailable: 50 kB\n");
    put_file(root, "cgroup.controllers", "memory\n");
    put_file(root, "memory.max", "30720\n");
    put_file(root, "memory.current", "10240\n");
    assert_int_equal(system_probe_new(root, root, &probe), 0);
    system_probe_read(probe, start_ns, &reading);
    assert_int_equal(reading.memory_total_bytes, 30720);
    assert_int_equal(reading.memory_available_bytes, 20480);

    /* usage is read each time, limits are cached */
    put_file(root, "memory.current", "20480\n");
    put_file(root, "memory.max", "25600\n");
    system_probe_read(probe, start_ns + NS_PER_SEC, &reading);
    assert_int_equal(reading.memory_total_bytes, 30720);
    assert_int_equal(reading.memory_available_bytes, 10240);
    put_file(root, "memory.stat", "inactive_file 2048\n");
    system_probe_read(probe, start_ns + 5 * NS_PER_SEC, &reading);
    assert_int_equal(reading.memory_total_bytes, 25600);
    assert_int_equal(reading.memory_available_bytes, 5120 + 2048);
    put_file(root, "memory.stat", "inactive_file 1024\n");
    system_probe_read(probe, start_ns + 6 * NS_PER_SEC, &reading);
    assert_int_equal(reading.memory_available_bytes, 5120 + 1024);

    put_file(root, "memory.max", "max\n"); /* no limit any more */
    system_probe_read(probe, start_ns + 10 * NS_PER_SEC, &reading);
    assert_int_equal(reading.memory_total_bytes, 100 * 1024);
    assert_int_equal(reading.memory_available_bytes, 50 * 1024);
    put_file(root, "memory.current", "garbage\n");
    system_probe_read(probe, start_ns + 11 * NS_PER_SEC, &reading);
    assert_int_equal(reading.memory_available_bytes, 50 * 1024);

    static const char *const names[] = {
        "self/cgroup",        "self",        "meminfo", "memory.current", "memory.max",
        "cgroup.controllers", "memory.stat", ""};
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        drop_file(root, names[i]);
}

static void test_limit_of_processes(void **state)
{
    (void)state;
    char root[] = "/tmp/sonde-test-XXXXXX", path[512];
    static const char *const dirs[] = {"sys", "sys/kernel", "self"};
    static const char *const names[] = {"sys/kernel/pid_max",
                                        "sys/kernel/threads-max",
                                        "self/cgroup",
                                        "cgroup.controllers",
                                        "pids.max",
                                        "sys/kernel",
                                        "sys",
                                        "self",
                                        ""};
    struct system_probe *probe = NULL;
    struct system_reading reading;

    assert_non_null(mkdtemp(root));
    assert_int_equal(system_probe_new(root, root, &probe), 0);
    assert_false(int_is_known(system_probe_pids_limit(probe)));
    system_probe_free(probe);

    for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
        snprintf(path, sizeof(path), "%s/%s", root, dirs[i]);
        assert_int_equal(mkdir(path, 0700), 0);
    }
    put_file(root, "sys/kernel/pid_max", "32768\n");
    put_file(root, "sys/kernel/threads-max", "20000\n");
    put_file(root, "self/cgroup", "0::/\n");
    put_file(root, "cgroup.controllers", "pids\n");
    put_file(root, "pids.max", "max\n");
    assert_int_equal(system_probe_new(root, root, &probe), 0);
    assert_int_equal(system_probe_pids_limit(probe), 20000); /* before any reading */
    put_file(root, "pids.max", "64\n");
    assert_int_equal(system_probe_pids_limit(probe), 20000);
    system_probe_read(probe, 10 * NS_PER_SEC, &reading);
    assert_int_equal(system_probe_pids_limit(probe), 64);
    put_file(root, "pids.max", "garbage\n");
    put_file(root, "sys/kernel/pid_max", "1000\n");
    system_probe_read(probe, 20 * NS_PER_SEC, &reading);
    assert_int_equal(system_probe_pids_limit(probe), 1000);
    system_probe_free(probe);
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        drop_file(root, names[i]);
}

static void test_missing_files_are_unknown(void **state)
{
    (void)state;
    _cleanup_(system_probe_freep) struct system_probe *probe = NULL;
    struct system_reading reading;

    assert_int_equal(system_probe_new(FIXTURES "/missing", FIXTURES "/missing", &probe), -ENOENT);
    assert_null(probe);

    assert_int_equal(system_probe_new(FIXTURES, FIXTURES, &probe), 0);
    system_probe_read(probe, 0, &reading);
    assert_false(int_is_known(reading.memory_total_bytes));
    assert_false(int_is_known(reading.memory_available_bytes));
    assert_false(real_is_known(reading.load.avg_1));
    assert_false(reading.cpu_known);
    assert_false(real_is_known(reading.cpu_count));
    assert_false(real_is_known(reading.psi.io.some_avg10));
}

/* The files change under the kept descriptors: garbled ones become unknown, not stale. */
static void test_garbled_files_are_unknown(void **state)
{
    (void)state;
    static const char *const names[] = {"meminfo", "loadavg", "stat"};
    char root[] = "/tmp/sonde-test-XXXXXX";
    _cleanup_(system_probe_freep) struct system_probe *probe = NULL;
    struct system_reading reading;

    assert_non_null(mkdtemp(root));
    put_file(root, "meminfo", "MemTotal: 100 kB\nMemAvailable: 50 kB\n");
    put_file(root, "loadavg", "1.00 2.00 3.00 1/2 3\n");
    put_file(root, "stat", "cpu  1 2 3 4\ncpu0 1 2 3 4\ncpu7 1 2 3 4\nintr 1 2\ncpu9 not a CPU\n");
    assert_int_equal(system_probe_new(root, root, &probe), 0);
    system_probe_read(probe, 0, &reading);
    assert_int_equal(reading.memory_total_bytes, 100 * 1024);
    assert_real(reading.load.avg_15, 3.0);
    assert_real(reading.cpu_count, 2.0);

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        put_file(root, names[i], "\xff garbage\n");
    system_probe_read(probe, 0, &reading);
    assert_false(int_is_known(reading.memory_total_bytes));
    assert_false(real_is_known(reading.load.avg_15));
    assert_false(reading.cpu_known);
    assert_false(real_is_known(reading.cpu_count));

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        drop_file(root, names[i]);
    drop_file(root, "");
}

static void test_this_machine(void **state)
{
    (void)state;
    _cleanup_(system_probe_freep) struct system_probe *probe = NULL;
    struct system_reading reading;
    struct sysinfo info;
    double load[3];

    assert_int_equal(system_probe_new("/proc", FIXTURES "/missing", &probe), 0);
    system_probe_read(probe, 0, &reading);
    assert_int_equal(sysinfo(&info), 0);
    assert_int_equal(getloadavg(load, 3), 3);

    assert_true(reading.memory_total_bytes == (int64_t)info.totalram * info.mem_unit);
    assert_true(reading.memory_available_bytes > 0);
    assert_true(reading.memory_available_bytes <= reading.memory_total_bytes);
    assert_true(fabs(reading.load.avg_1 - load[0]) < 1);
    assert_true(fabs(reading.load.avg_5 - load[1]) < 1);
    assert_true(fabs(reading.load.avg_15 - load[2]) < 1);
    assert_true(reading.cpu_known && reading.cpu.idle > 0);
    assert_true(reading.cpu_count == (double)sysconf(_SC_NPROCESSORS_ONLN));
}

static void test_this_machine_in_its_cgroup(void **state)
{
    (void)state;
    _cleanup_(system_probe_freep) struct system_probe *probe = NULL;
    struct system_reading reading, before;

    assert_int_equal(system_probe_new("/proc", "/sys/fs/cgroup", &probe), 0);
    system_probe_read(probe, 0, &before);
    system_probe_read(probe, 0, &reading);
    assert_true(reading.memory_total_bytes > 0);
    assert_true(reading.memory_available_bytes >= 0);
    assert_true(reading.memory_available_bytes <= reading.memory_total_bytes);
    assert_true(reading.cpu_count > 0);
    assert_true(reading.cpu_count <= (double)sysconf(_SC_NPROCESSORS_ONLN));
    assert_true(reading.cpu.busy >= before.cpu.busy);
    assert_true(reading.cpu.idle + 10 >= before.cpu.idle); /* iowait may run backwards */
}

/* ---- the fixture's processes, file by file ---- */

static size_t read_fixture(int pid, const char *name, char *into, size_t capacity)
{
    char path[512];

    snprintf(path, sizeof(path), FIXTURES "/proc-basic/%d/%s", pid, name);
    ssize_t length = fd_read_file(AT_FDCWD, path, into, capacity);
    assert_true(length >= 0);
    return (size_t)length;
}

static void test_every_fixture_process_parses(void **state)
{
    (void)state;
    static const int pids[] = {1, 2, 100, 101, 102, 103, 104, 105};
    char bytes[8192];

    for (size_t i = 0; i < ARRAY_SIZE(pids); i++) {
        struct proc_stat stat;
        struct proc_statm statm;
        struct proc_status status;
        int64_t fd_limit;

        size_t length = read_fixture(pids[i], "stat", bytes, sizeof(bytes));
        assert_int_equal(proc_stat_parse(bytes, length, &stat), 0);
        assert_int_equal(stat.pid, pids[i]);
        assert_true(proc_stat_is_kernel_thread(&stat) == (pids[i] == 2));
        length = read_fixture(pids[i], "statm", bytes, sizeof(bytes));
        assert_int_equal(proc_statm_parse(bytes, length, &statm), 0);
        length = read_fixture(pids[i], "status", bytes, sizeof(bytes));
        assert_int_equal(proc_status_parse(bytes, length, &status), 0);
        assert_true(int_is_known(status.peak_rss_bytes) == (statm.size_pages > 0));
        assert_true(status.ignores_sigchld == (pids[i] == 102));
        length = read_fixture(pids[i], "limits", bytes, sizeof(bytes));
        assert_int_equal(proc_limits_parse_fds(bytes, length, &fd_limit), 0);
    }
}

static void test_hostile_fixture_processes(void **state)
{
    (void)state;
    char bytes[8192], command[COMMAND_MAX_BYTES + 1];
    struct proc_stat stat;

    size_t length = read_fixture(102, "stat", bytes, sizeof(bytes));
    assert_int_equal(proc_stat_parse(bytes, length, &stat), 0);
    assert_string_equal(stat.name, "a) R 1 (b");
    assert_int_equal(stat.ppid, 100);

    length = read_fixture(103, "stat", bytes, sizeof(bytes));
    assert_int_equal(proc_stat_parse(bytes, length, &stat), 0);
    assert_string_equal(stat.name, "x\n\x1b[31mred");
    assert_int_equal(stat.state, 'D');

    length = read_fixture(104, "cmdline", bytes, sizeof(bytes));
    proc_cmdline_parse(bytes, length, command, sizeof(command));
    assert_string_equal(command, "sshd: alice [priv]");

    length = read_fixture(105, "cmdline", bytes, sizeof(bytes));
    assert_true(length > COMMAND_MAX_BYTES);
    /* "python3 -c " and 163 characters of three bytes fill 500 bytes exactly */
    assert_int_equal(proc_cmdline_parse(bytes, length, command, sizeof(command)), 500);
    assert_memory_equal(command, "python3 -c \u8a9e", 14);
    assert_int_equal(proc_cmdline_parse(bytes, length, command, sizeof(command) - 1), 497);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_version_2_uses_the_smallest_limit_of_all_ancestors),
        cmocka_unit_test(test_version_1_has_one_tree_per_controller),
        cmocka_unit_test(test_hybrid_reads_each_controller_from_its_tree),
        cmocka_unit_test(test_container_without_a_namespace_uses_the_root_of_the_mount),
        cmocka_unit_test(test_available_memory_is_never_negative),
        cmocka_unit_test(test_machine_of_the_fixture),
        cmocka_unit_test(test_machine_of_the_fixture_in_a_cgroup),
        cmocka_unit_test(test_limits_are_read_again),
        cmocka_unit_test(test_limit_of_processes),
        cmocka_unit_test(test_missing_files_are_unknown),
        cmocka_unit_test(test_garbled_files_are_unknown),
        cmocka_unit_test(test_this_machine),
        cmocka_unit_test(test_this_machine_in_its_cgroup),
        cmocka_unit_test(test_every_fixture_process_parses),
        cmocka_unit_test(test_hostile_fixture_processes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
