/* The clients of a GPU: the open device files of processes, their figures, and which are read. */
#include "gpu-clients-world.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/macros.h"

/* ---- files ---- */

/* One file without figures makes the load of its device unknown, but not that of others. */
static void test_unreadable_files(void **state)
{
    static const char *const texts[] = {
        "pos:\t0\nflags:\t02100002\nmnt_id:\t30\n", /* vmwgfx, or virtio_gpu before 6.2 */
        "",
        "drm-driver:\ti915\ndrm-pdev:\t0000:00:02.0\ndrm-engine-render:\tmuch\n",
    };
    static const struct drm_device other = {.pdev = "0000:07:00.0", .card = 1, .render = 129};
    const struct gpu_world *world = *state;
    struct drm_clients *clients = new_clients(world);
    unsigned age = 1;

    world_put_process(world, 100, 50);
    world_put_file(world, 100, 4, "/dev/dri/renderD128", I915_CLIENT(1, 0, 0, 10));
    busy_of(clients, &i915, age++);
    assert_true(busy_of(clients, &i915, age++) == 0);
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        world_put_file(world, 100, 5, i % 2 ? "/dev/dri/card0" : "/dev/dri/renderD128", texts[i]);
        assert_true(isnan(busy_of(clients, &i915, age++)));
        assert_true(isnan(busy_of(clients, &i915, age++)));
        assert_true(drm_clients_busy_pct(clients, &other) == 0);
    }
    /* the descriptor is another file now: noticed at once, not only in the next walk */
    world_put_file(world, 100, 5, "/dev/null", "pos:\t0\nflags:\t02\nmnt_id:\t30\n");
    drm_clients_update(clients, (age - 1) * AGE + SECOND, NULL, 0);
    assert_true(drm_clients_busy_pct(clients, &i915) == 0);
    drm_clients_free(clients);
}

/* The files are read after the scan, so their figures are of that time. */
static void test_scan_time_is_added(void **state)
{
    const struct gpu_world *world = *state;
    struct drm_clients *clients = new_clients(world);

    world_put_process(world, 100, 50);
    world_put_file(world, 100, 4, "/dev/dri/renderD128", I915_CLIENT(1, 0, 0, 10));
    uint64_t begun_ns = clock_mono_ns();
    drm_clients_update(clients, AGE, NULL, 0);
    double walk_sec = (double)(clock_mono_ns() - begun_ns) / 1e9;
    world_put_file(world, 100, 4, "/dev/dri/renderD128", I915_CLIENT(1, 2, 0, 10));
    drm_clients_update(clients, AGE + 4 * SECOND, NULL, 0); /* too soon for a walk */
    double busy_pct = drm_clients_busy_pct(clients, &i915);
    assert_true(busy_pct > 50);
    assert_true(walk_sec >= 2 || busy_pct <= 2 / (4 - walk_sec) * 100);
    drm_clients_free(clients);
}

/* ---- processes ---- */

static struct gpu_reading *processes_at(const struct gpu_world *world, struct drm_clients *clients,
                                        uint64_t mono_ns)
{
    struct gpu_reading *reading = gpu_reading_new();
    int proc_fd = open(world->proc, O_PATH | O_DIRECTORY | O_CLOEXEC);

    assert_non_null(reading);
    drm_clients_update(clients, mono_ns, NULL, 0);
    assert_int_equal(drm_clients_read_processes(clients, &i915, 1, reading), 0);
    gpu_reading_identify(reading, proc_fd);
    close(proc_fd);
    return reading;
}

static void test_memory_of_processes(void **state)
{
    const struct gpu_world *world = *state;
    struct drm_clients *clients = new_clients(world);

    world_put_process(world, 100, 50);
    world_put_process(world, 101, 60);
    world_put_process(world, 102, UINT64_C(1) << 60); /* started after the reading */
    world_put_file(world, 100, 5, "/dev/dri/renderD128", I915_CLIENT(1, 0, 0, 10));
    world_put_file(world, 100, 6, "/dev/dri/renderD128", I915_CLIENT(1, 0, 0, 10)); /* dup */
    world_put_file(world, 100, 7, "/dev/dri/renderD129", I915_CLIENT(2, 0, 0, 30));
    world_put_file(world, 101, 5, "/dev/dri/renderD128", I915_CLIENT(1, 0, 0, 10)); /* shared */
    world_put_file(world, 101, 6, "/dev/dri/card0", "drm-driver:\tnouveau\n");      /* no figures */
    world_put_file(world, 101, 7, "/tmp/dri/card0", I915_CLIENT(9, 0, 0, 90));      /* no device */
    world_put_file(world, 102, 3, "/dev/dri/renderD128", I915_CLIENT(3, 0, 0, 40));
    world_put_file(world, 101, 8, "/dev/dri/renderD130", /* of another device */
                   "drm-driver:\tnvidia-drm\ndrm-pdev:\t0000:09:00.0\ndrm-memory-vram:\t9 MiB\n");
    struct gpu_reading *reading = processes_at(world, clients, SECOND);
    assert_int_equal(reading->processes.count, 1);
    assert_int_equal(gpu_reading_find(reading, 100, 50)->memory_bytes, 40 << 20);
    assert_null(gpu_reading_find(reading, 100, 51)); /* another process with that pid */
    assert_null(gpu_reading_find(reading, 101, 60));
    gpu_reading_free(reading);

    /* Between walks, only known files are read; the next walk finds new ones. */
    world_put_file(world, 100, 7, "/dev/dri/renderD129", I915_CLIENT(2, 0, 0, 35));
    world_put_file(world, 101, 9, "/dev/dri/renderD128", I915_CLIENT(4, 0, 0, 7));
    reading = processes_at(world, clients, 2 * SECOND);
    assert_int_equal(gpu_reading_find(reading, 100, 50)->memory_bytes, 45 << 20);
    assert_null(gpu_reading_find(reading, 101, 60));
    gpu_reading_free(reading);
    reading = processes_at(world, clients, 7 * SECOND);
    assert_int_equal(gpu_reading_find(reading, 101, 60)->memory_bytes, 7 << 20);
    gpu_reading_free(reading);

    world_drop(world, "proc/100");
    reading = processes_at(world, clients, 8 * SECOND);
    assert_null(gpu_reading_find(reading, 100, 50));
    /* the process that shared the file has it now */
    assert_int_equal(gpu_reading_find(reading, 101, 60)->memory_bytes, 17 << 20);
    gpu_reading_free(reading);
    drm_clients_free(clients);
}

static void test_many_processes_start_and_end(void **state)
{
    const struct gpu_world *world = *state;
    struct drm_clients *clients = new_clients(world);
    char path[64], text[256];

    for (int i = 0; i < 200; i++) {
        world_put_process(world, 1000 + i, 50);
        snprintf(text, sizeof(text),
                 "drm-driver:\ti915\ndrm-client-id:\t%d\ndrm-pdev:\t0000:00:02.0\n"
                 "drm-memory-system0:\t%d\n",
                 i, i);
        world_put_file(world, 1000 + i, 3, "/dev/dri/renderD128", text);
    }
    struct gpu_reading *reading = processes_at(world, clients, SECOND);
    assert_int_equal(reading->processes.count, 200);
    gpu_reading_free(reading);
    for (int i = 0; i < 200; i += 2) {
        snprintf(path, sizeof(path), "proc/%d", 1000 + i);
        world_drop(world, path);
    }
    for (uint64_t turn = 2; turn < 5; turn++) {
        reading = processes_at(world, clients, turn * 6 * SECOND);
        assert_int_equal(reading->processes.count, 100);
        for (int i = 1; i < 200; i += 2)
            assert_int_equal(gpu_reading_find(reading, 1000 + i, 50)->memory_bytes, i);
        gpu_reading_free(reading);
    }
    drm_clients_free(clients);
}

/* The same number on two devices is two clients; so are two files of a driver without numbers. */
static void test_clients_are_distinguished(void **state)
{
    static const struct drm_device both[] = {{.pdev = "0000:00:02.0", .card = 0, .render = 128},
                                             {.pdev = "0000:03:00.0", .card = 1, .render = 129}};
    static const char numberless[] = "drm-driver:\tamdgpu\ndrm-pdev:\t0000:03:00.0\n"
                                     "drm-memory-vram:\t200 MiB\n";
    const struct gpu_world *world = *state;
    struct drm_clients *clients = new_clients(world);
    int64_t sum = 0;

    world_put_process(world, 100, 50);
    world_put_file(world, 100, 3, "/dev/dri/renderD128", I915_CLIENT(7, 0, 0, 1));
    world_put_file(world, 100, 4, "/dev/dri/renderD129",
                   "drm-driver:\ti915\ndrm-client-id:\t7\ndrm-pdev:\t0000:03:00.0\n"
                   "drm-resident-system0:\t10 MiB\n");
    world_put_file(world, 100, 5, "/dev/dri/renderD129", numberless);
    world_put_file(world, 100, 6, "/dev/dri/renderD129", numberless);
    drm_clients_update(clients, SECOND, NULL, 0);
    struct gpu_reading *reading = gpu_reading_new();
    assert_non_null(reading);
    assert_int_equal(drm_clients_read_processes(clients, both, 2, reading), 0);
    for (size_t i = 0; i < reading->processes.count; i++)
        sum += reading->processes.items[i].memory_bytes;
    assert_int_equal(sum, INT64_C(411) << 20);
    gpu_reading_free(reading);
    drm_clients_free(clients);
}

/* The limits of drm-clients.c, per process and in total. */
#define FILES_MAX   256
#define CLIENTS_MAX 4096

static void put_files(const struct gpu_world *world, pid_t pid, int count)
{
    char text[256];

    world_put_process(world, pid, 50);
    for (int i = 0; i < count; i++) {
        snprintf(text, sizeof(text),
                 "drm-driver:\ti915\ndrm-client-id:\t%d\ndrm-pdev:\t0000:00:02.0\n"
                 "drm-memory-system0:\t1\ndrm-engine-render:\t5 ns\n",
                 (int)pid * 1000 + i);
        world_put_file(world, pid, 10 + i, "/dev/dri/renderD128", text);
    }
}

static size_t count_clients(const struct drm_clients *clients)
{
    struct gpu_reading *reading = gpu_reading_new();

    assert_non_null(reading);
    assert_int_equal(drm_clients_read_processes(clients, &i915, 1, reading), 0);
    size_t count = reading->processes.count;
    gpu_reading_free(reading);
    return count;
}

/* The number of files that are kept and read is limited. Omitted files make the load unknown; it is
 * known again when none is omitted. */
static void test_number_of_files_is_limited(void **state)
{
    const struct gpu_world *world = *state;
    struct drm_clients *clients = new_clients(world);

    for (pid_t pid = 100; pid < 100 + CLIENTS_MAX / FILES_MAX; pid++)
        put_files(world, pid, FILES_MAX);
    busy_of(clients, &i915, 1);
    assert_true(busy_of(clients, &i915, 2) == 0);
    assert_int_equal(count_clients(clients), CLIENTS_MAX);
    put_files(world, 200, 1);
    assert_true(isnan(busy_of(clients, &i915, 3)));
    assert_int_equal(count_clients(clients), CLIENTS_MAX);
    world_drop(world, "proc/100");
    assert_true(busy_of(clients, &i915, 4) == 0);
    assert_int_equal(count_clients(clients), CLIENTS_MAX - FILES_MAX + 1);
    put_files(world, 200, FILES_MAX + 1);
    assert_true(isnan(busy_of(clients, &i915, 5)));
    assert_int_equal(count_clients(clients), CLIENTS_MAX);
    drm_clients_free(clients);
}

/* ---- walks skip unchanged directories ---- */

static off_t size_of(const struct gpu_world *world, const char *path)
{
    char whole[PATH_MAX];
    struct stat st;

    snprintf(whole, sizeof(whole), "%s/%s", world->dir, path);
    assert_int_equal(stat(whole, &st), 0);
    return st.st_size;
}

/* File systems differ in when a directory grows; many long names suffice in all. */
static void grow_descriptors(const struct gpu_world *world, pid_t pid)
{
    char directory[64], path[512];

    snprintf(directory, sizeof(directory), "proc/%d/fd", (int)pid);
    const off_t size = size_of(world, directory);
    for (int i = 0; i < 1000 && size_of(world, directory) == size; i++) {
        snprintf(path, sizeof(path), "%s/%0200d-", directory, i);
        world_put(world, path, "%s", "");
    }
    assert_true(size_of(world, directory) != size);
}

/* Replaces one file by another: their number stays the same. */
static void replace_file(const struct gpu_world *world, pid_t pid, int file)
{
    char directory[64];

    snprintf(directory, sizeof(directory), "proc/%d/fd", (int)pid);
    const off_t size = size_of(world, directory);
    world_put_file(world, pid, file, "/dev/dri/renderD128", I915_CLIENT(1, 0, 0, 5));
    assert_int_equal(size_of(world, directory), size);
}

static bool is_found_at(const struct gpu_world *world, struct drm_clients *clients, pid_t pid,
                        unsigned age)
{
    struct gpu_reading *reading = processes_at(world, clients, age * AGE);
    bool is_found = gpu_reading_find(reading, pid, 50);

    gpu_reading_free(reading);
    return is_found;
}

static struct drm_clients *clients_of_self(const struct gpu_world *world)
{
    world_put_process(world, getpid(), 40);
    link_self(world);
    world_put_process(world, 1, 1);
    world_put_process(world, 100, 50);
    return new_clients(world);
}

static void test_directory_that_grew_is_scanned(void **state)
{
    const struct gpu_world *world = *state;
    struct drm_clients *clients = clients_of_self(world);

    assert_false(is_found_at(world, clients, 100, 1));
    replace_file(world, 100, 0);
    assert_false(is_found_at(world, clients, 100, 2)); /* not scanned */
    grow_descriptors(world, 100);
    assert_true(is_found_at(world, clients, 100, 3));
    assert_true(is_found_at(world, clients, 100, 4)); /* known without a scan */
    drm_clients_free(clients);
}

static void test_reused_pid_is_scanned(void **state)
{
    const struct gpu_world *world = *state;
    char from[PATH_MAX], to[PATH_MAX];
    struct drm_clients *clients = clients_of_self(world);

    assert_false(is_found_at(world, clients, 100, 1));
    world_put_process(world, 101, 50);
    replace_file(world, 101, 0);
    snprintf(from, sizeof(from), "%s/100", world->proc);
    snprintf(to, sizeof(to), "%s/former", world->proc);
    assert_int_equal(rename(from, to), 0);
    snprintf(to, sizeof(to), "%s/101", world->proc);
    assert_int_equal(rename(to, from), 0);
    assert_int_equal(size_of(world, "proc/100/fd"), size_of(world, "proc/former/fd"));
    assert_true(is_found_at(world, clients, 100, 2));
    drm_clients_free(clients);
}

/* Every twelfth walk scans all processes. When a known file is no longer a device, the next walk
 * scans its process. */
static void test_every_twelfth_walk_scans_all(void **state)
{
    const struct gpu_world *world = *state;
    struct drm_clients *clients = clients_of_self(world);
    unsigned age = 1;

    world_put_file(world, 100, 1, "/dev/null", "pos:\t0\n");
    assert_false(is_found_at(world, clients, 100, age++));
    replace_file(world, 100, 0);
    while (age < 12)
        assert_false(is_found_at(world, clients, 100, age++));
    assert_true(is_found_at(world, clients, 100, age++));
    world_put_file(world, 100, 0, "/dev/null", "pos:\t0\n");
    assert_false(is_found_at(world, clients, 100, age++));
    replace_file(world, 100, 1);
    assert_true(is_found_at(world, clients, 100, age++));
    drm_clients_free(clients);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORLD_TEST(test_unreadable_files),
        WORLD_TEST(test_scan_time_is_added),
        WORLD_TEST(test_memory_of_processes),
        WORLD_TEST(test_many_processes_start_and_end),
        WORLD_TEST(test_clients_are_distinguished),
        WORLD_TEST(test_number_of_files_is_limited),
        WORLD_TEST(test_directory_that_grew_is_scanned),
        WORLD_TEST(test_reused_pid_is_scanned),
        WORLD_TEST(test_every_twelfth_walk_scans_all),
    };
    return cmocka_run_group_tests_name("gpu-clients", tests, NULL, NULL);
}
