/* GPUs on their way into snapshots, with a real loop: a fake driver, cards made of files, and
 * programs that are called nvidia-smi. */
#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd-io.h"
#include "base/macros.h"
#include "base/thread.h"
#include "engine/gpu/gpu-watch.h"
#include "gpu-world.h"

#define INTERVAL_NS (NS_PER_SEC / 20)

struct stage {
    struct gpu_world *world;
    uv_loop_t loop;
    uv_timer_t ticks;
    uv_timer_t half; /* of the delay */
    struct helpers *helpers;
    struct gpu_watch *watch;
    struct snapshot *snapshot; /* the last one */
    bool is_held;              /* the watch may not begin yet */
    uint64_t delay_ms;         /* before the first search */
    unsigned asked;            /* how often the watch asked whether it may begin */
    bool is_half_over;
    unsigned absences; /* reports that there is no GPU */
    char reason[GPU_TEXT_SIZE];
};

/* Sanitizers may have threads too; those of sonde have names. */
static unsigned count_threads(const char *name)
{
    _cleanup_closedir_ DIR *directory = fd_open_directory(-1, "/proc/self/task");
    char path[NAME_MAX + 8], comm[32];
    unsigned count = 0;

    assert_non_null(directory);
    for (struct dirent *entry; (entry = readdir(directory));) {
        snprintf(path, sizeof(path), "%s/comm", entry->d_name);
        ssize_t length = fd_read_file(dirfd(directory), path, comm, sizeof(comm));
        count += length > 0 && strncmp(comm, name, strlen(name)) == 0 && comm[strlen(name)] == '\n';
    }
    return count;
}

static bool has_thread(const char *name)
{
    return count_threads(name) > 0;
}

static bool has_threads(void)
{
    return has_thread("sonde-nvml") || has_thread("sonde-drm");
}

static void on_none(void *context, const char *reason)
{
    struct stage *stage = context;

    stage->absences++;
    snprintf(stage->reason, sizeof(stage->reason), "%s", reason);
}

/* Two processes of the fixture, and another one with the pid of the second. */
static struct snapshot *make_snapshot(void)
{
    static const struct {
        pid_t pid;
        uint64_t start_ticks;
    } processes[] = {{100, 50}, {101, 60}, {101, 61}};
    struct snapshot *snapshot = snapshot_new();

    assert_non_null(snapshot);
    snapshot->processes.items =
        arena_alloc(&snapshot->arena, ARRAY_SIZE(processes) * sizeof(struct process_metric));
    assert_non_null(snapshot->processes.items);
    for (size_t i = 0; i < ARRAY_SIZE(processes); i++) {
        struct process_metric *process = &snapshot->processes.items[i];
        record_init(&process_metric_record, process);
        process->pid = processes[i].pid;
        process->start_ticks = processes[i].start_ticks;
    }
    snapshot->processes.count = ARRAY_SIZE(processes);
    return snapshot;
}

static void on_tick(uv_timer_t *timer)
{
    struct stage *stage = timer->data;

    snapshot_free(stage->snapshot);
    stage->snapshot = make_snapshot();
    assert_int_equal(gpu_watch_fill(stage->watch, clock_mono_ns(), INTERVAL_NS, stage->snapshot),
                     0);
}

static int begin(void **state)
{
    struct stage *stage = calloc(1, sizeof(*stage));
    char path[64];

    if (!stage || gpu_world_make((void **)&stage->world) < 0)
        return -1;
    unsetenv("FAKE_NVML");
    snprintf(path, sizeof(path), "%s/nvml", stage->world->dir);
    setenv("FAKE_NVML_FILE", path, 1);
    uv_loop_init(&stage->loop);
    uv_timer_init(&stage->loop, &stage->ticks);
    uv_timer_init(&stage->loop, &stage->half);
    stage->ticks.data = stage->half.data = stage;
    uv_timer_start(&stage->ticks, on_tick, 0, INTERVAL_NS / NS_PER_MSEC);
    *state = stage;
    return helpers_new(&stage->loop, &(struct helpers_options){0}, &stage->helpers);
}

static bool may_begin(void *context)
{
    struct stage *stage = context;

    stage->asked++;
    return !stage->is_held;
}

static void start(struct stage *stage, enum auto_switch choice)
{
    const struct gpu_watch_options options = {
        .roots = stage->world->roots,
        .helpers = stage->helpers,
        .delay_ms = stage->delay_ms,
        .may_begin = may_begin,
        .on_none = on_none,
        .context = stage,
    };

    assert_int_equal(gpu_watch_new(&stage->loop, &options, &stage->watch), 0);
    gpu_watch_configure(stage->watch, choice);
}

static int end(void **state)
{
    struct stage *stage = *state;

    gpu_watch_close(stage->watch);
    helpers_close(stage->helpers);
    uv_close((uv_handle_t *)&stage->ticks, NULL);
    uv_close((uv_handle_t *)&stage->half, NULL);
    uv_run(&stage->loop, UV_RUN_DEFAULT);
    int r = uv_loop_close(&stage->loop); /* all handles are gone */
    snapshot_free(stage->snapshot);
    /* A hanging thread still uses its paths. */
    gpu_world_remove((void **)&stage->world);
    free(stage);
    return r;
}

/* Runs the loop until the condition holds; meson's timeout ends the test if it never does. */
#define AWAIT(stage, condition)                                                                    \
    do                                                                                             \
        uv_run(&(stage)->loop, UV_RUN_ONCE);                                                       \
    while (!(condition))

static const struct gpu_metric *gpu_at(const struct stage *stage, size_t i)
{
    return stage->snapshot && i < stage->snapshot->gpus.count ? &stage->snapshot->gpus.items[i]
                                                              : NULL;
}

static bool is_known(const struct stage *stage, size_t i)
{
    const struct gpu_metric *gpu = gpu_at(stage, i);

    return gpu && real_is_known(gpu->utilization_pct);
}

static size_t gpu_count(const struct stage *stage)
{
    return stage->snapshot ? stage->snapshot->gpus.count : 0;
}

static double memory_of(const struct stage *stage, size_t i)
{
    return stage->snapshot->processes.items[i].gpu_memory_mb;
}

static bool status_has(const struct stage *stage, const char *expected)
{
    char words[GPU_TEXT_SIZE];

    gpu_watch_describe(stage->watch, words);
    return strstr(words, expected) != NULL;
}

static void assert_status(const struct stage *stage, const char *expected)
{
    char words[GPU_TEXT_SIZE];

    gpu_watch_describe(stage->watch, words);
    if (!strstr(words, expected))
        fail_msg("'%s' does not say '%s'", words, expected);
}

/* Sets the behaviour of the driver atomically. */
static void configure_nvml(const struct stage *stage, const char *text)
{
    char path[64], made[64];

    world_put(stage->world, "nvml.new", "%s", text);
    snprintf(made, sizeof(made), "%s/nvml.new", stage->world->dir);
    snprintf(path, sizeof(path), "%s/nvml", stage->world->dir);
    assert_int_equal(rename(made, path), 0);
}

/* A program of that name in the first directory of PATH. */
static void put_smi(const struct stage *stage, const char *script)
{
    char path[PATH_MAX + 64];

    world_put(stage->world, "bin/nvidia-smi", "#!/bin/sh\n%s\n", script);
    snprintf(path, sizeof(path), "%s/bin/nvidia-smi", stage->world->dir);
    assert_int_equal(chmod(path, 0700), 0);
    snprintf(path, sizeof(path), "%s/bin:/usr/bin:/bin", stage->world->dir);
    setenv("PATH", path, 1);
}

#define SMI_ANSWERS                                                                                \
    "case $1 in *query-gpu*) echo '0, 12, 100, 200, 40, 900, 33.5, A, b'\n"                        \
    "echo '1, [N/A], 5, 200, 41, 901, 34.5, B';; *) echo '100, 77'; echo '101, 3';; esac"

/* ---- ---- */

static void test_no_thread_without_a_device(void **state)
{
    struct stage *stage = *state;

    start(stage, SWITCH_AUTO);
    AWAIT(stage, stage->snapshot);
    AWAIT(stage, true);
    AWAIT(stage, true);
    assert_false(has_threads());
    assert_int_equal(gpu_count(stage), 0);
    assert_status(stage, "no device");
    assert_int_equal(stage->absences, 0);
}

static void test_switched_off_and_on(void **state)
{
    struct stage *stage = *state;

    world_put_radeon(stage->world, 0);
    start(stage, SWITCH_OFF);
    AWAIT(stage, stage->snapshot);
    assert_status(stage, "profiler.gpu_enabled is false");
    assert_false(has_threads());
    gpu_watch_configure(stage->watch, SWITCH_AUTO);
    AWAIT(stage, is_known(stage, 0));
    assert_true(has_thread("sonde-drm") && !has_thread("sonde-nvml"));
    assert_status(stage, "kernel (DRM): 1 device");
    gpu_watch_configure(stage->watch, SWITCH_OFF);
    AWAIT(stage, gpu_count(stage) == 0);
    AWAIT(stage, !has_threads()); /* a thread in a request ends later */
}

static void test_start_waits_for_permission(void **state)
{
    struct stage *stage = *state;

    world_put_radeon(stage->world, 0);
    stage->is_held = true;
    start(stage, SWITCH_AUTO);
    for (int i = 0; i < 5; i++)
        AWAIT(stage, true);
    assert_false(has_threads());
    assert_int_equal(gpu_count(stage), 0);
    stage->is_held = false;
    AWAIT(stage, is_known(stage, 0));
}

static void on_half_over(uv_timer_t *timer)
{
    struct stage *stage = timer->data;

    stage->is_half_over = true;
    assert_int_equal(stage->asked, 0);
    assert_false(has_threads());
}

/* A loop calls timers in the order in which they are due, however late it is. */
static void test_no_search_before_the_delay(void **state)
{
    struct stage *stage = *state;

    world_put_radeon(stage->world, 0);
    stage->delay_ms = 4 * INTERVAL_NS / NS_PER_MSEC;
    uv_timer_start(&stage->half, on_half_over, stage->delay_ms / 2, 0);
    start(stage, SWITCH_AUTO);
    AWAIT(stage, stage->asked);
    assert_true(stage->is_half_over);
    AWAIT(stage, is_known(stage, 0));
}

static void test_two_sources_and_their_processes(void **state)
{
    struct stage *stage = *state;

    world_put(stage->world, "dev/nvidiactl", "%s", "");
    world_put(stage->world, "dev/nvidia0", "%s", "");
    world_put_radeon(stage->world, 0);
    world_put_process(stage->world, 100, 50);
    world_put_process(stage->world, 101, 60);
    world_put_file(stage->world, 100, 3, "/dev/dri/renderD128",
                   "drm-driver:\tamdgpu\ndrm-client-id:\t1\ndrm-pdev:\t0000:03:00.0\n"
                   "drm-memory-vram:\t10 MiB\n");
    configure_nvml(stage, "compute 0 100 5242880\ncompute 2 101 1048576\n");
    start(stage, SWITCH_AUTO);
    AWAIT(stage, is_known(stage, 2));
    assert_int_equal(gpu_count(stage), 3);
    assert_int_equal(gpu_at(stage, 0)->index, 0);
    assert_string_equal(gpu_at(stage, 0)->name, "Fake A, 24 GB");
    assert_int_equal(gpu_at(stage, 1)->index, 2);
    assert_int_equal(gpu_at(stage, 2)->index, 3);
    assert_string_equal(gpu_at(stage, 2)->vendor, "AMD");
    assert_true(gpu_at(stage, 2)->utilization_pct == 37);
    assert_true(memory_of(stage, 0) == 15); /* on both */
    assert_true(memory_of(stage, 1) == 1);
    assert_true(isnan(memory_of(stage, 2))); /* another process of that pid */
    assert_status(stage, "NVML: 2 devices; kernel (DRM): 1 device");
}

/* The devices of a driver that hangs stay listed, without figures. Others are not affected, and the
 * driver recovers by itself. */
static void test_driver_that_hangs(void **state)
{
    struct stage *stage = *state;

    world_put(stage->world, "dev/nvidiactl", "%s", "");
    world_put(stage->world, "dev/nvidia0", "%s", "");
    world_put_radeon(stage->world, 0);
    configure_nvml(stage, "");
    start(stage, SWITCH_AUTO);
    AWAIT(stage, is_known(stage, 0) && is_known(stage, 2));
    configure_nvml(stage, "stuck\n");
    AWAIT(stage, !is_known(stage, 0));
    assert_string_equal(gpu_at(stage, 0)->name, "Fake A, 24 GB");
    assert_true(isnan(gpu_at(stage, 0)->memory_used_mb) && isnan(gpu_at(stage, 1)->power_w));
    assert_true(is_known(stage, 2)); /* the other one */
    assert_status(stage, "NVML: does not answer; kernel (DRM): 1 device");
    configure_nvml(stage, "");
    AWAIT(stage, is_known(stage, 0));
    assert_true(gpu_at(stage, 1)->memory_used_mb == 3072);
}

/* A source that hangs is not started a second time, however often it is switched off and on. */
static void test_switched_off_and_on_while_a_driver_hangs(void **state)
{
    struct stage *stage = *state;

    world_put(stage->world, "dev/nvidiactl", "%s", "");
    world_put(stage->world, "dev/nvidia0", "%s", "");
    configure_nvml(stage, "stuck-init\n");
    start(stage, SWITCH_AUTO);
    AWAIT(stage, has_thread("sonde-nvml"));
    for (int i = 0; i < 3; i++) {
        gpu_watch_configure(stage->watch, SWITCH_OFF);
        gpu_watch_configure(stage->watch, SWITCH_AUTO);
        AWAIT(stage, status_has(stage, "NVML: no answer yet"));
        assert_int_equal(count_threads("sonde-nvml"), 1);
    }
    configure_nvml(stage, "");
    AWAIT(stage, is_known(stage, 0));
    assert_int_equal(count_threads("sonde-nvml"), 1);
}

static void test_stop_while_a_driver_hangs(void **state)
{
    struct stage *stage = *state;

    world_put(stage->world, "dev/nvidiactl", "%s", "");
    world_put(stage->world, "dev/nvidia0", "%s", "");
    world_put_radeon(stage->world, 0);
    configure_nvml(stage, "stuck-init\n");
    start(stage, SWITCH_AUTO);
    AWAIT(stage, is_known(stage, 0));
    assert_string_equal(gpu_at(stage, 0)->vendor, "AMD");
    assert_int_equal(gpu_at(stage, 0)->index, 1); /* after the GPU with an NVIDIA node */
    assert_status(stage, "NVML: no answer yet");
    /* the thread is detached and ends later */
    gpu_watch_close(TAKE_PTR(stage->watch));
    uv_timer_stop(&stage->ticks);
    assert_true(threads_were_abandoned());
    configure_nvml(stage, "");
    while (has_threads())
        usleep(1000);
}

static void test_missing_gpu_is_reported_once(void **state)
{
    struct stage *stage = *state;

    setenv("FAKE_NVML", "mismatch", 1);
    setenv("PATH", "/nowhere", 1);
    start(stage, SWITCH_ON);
    AWAIT(stage, stage->absences);
    for (int i = 0; i < 5; i++)
        AWAIT(stage, true);
    assert_int_equal(stage->absences, 1);
    assert_non_null(strstr(stage->reason, "driver differ"));
    assert_non_null(strstr(stage->reason, "/sys/class/drm"));
    assert_int_equal(gpu_count(stage), 0);
}

/* ---- nvidia-smi ---- */

static void test_smi_without_nvml(void **state)
{
    struct stage *stage = *state;

    setenv("FAKE_NVML", "broken", 1);
    world_put(stage->world, "dev/nvidiactl", "%s", "");
    world_put(stage->world, "dev/nvidia0", "%s", "");
    world_put_process(stage->world, 100, 50);
    world_put_process(stage->world, 101, 60);
    put_smi(stage, SMI_ANSWERS);
    start(stage, SWITCH_AUTO);
    AWAIT(stage, is_known(stage, 0));
    assert_int_equal(gpu_count(stage), 2);
    assert_string_equal(gpu_at(stage, 0)->name, "A, b");
    assert_true(gpu_at(stage, 0)->power_w == 33.5);
    assert_true(isnan(gpu_at(stage, 1)->utilization_pct));
    assert_true(gpu_at(stage, 1)->memory_used_mb == 5);
    assert_true(memory_of(stage, 0) == 77 && memory_of(stage, 1) == 3);
    assert_status(stage, "nvidia-smi: 2 devices, without NVML (NVML cannot be initialised)");
}

static void test_smi_that_fails(void **state)
{
    static const struct {
        const char *script, *words;
    } cases[] = {
        {"echo '0, 12, 100, 200'; exit 9", "nvidia-smi ended with status 9"},
        {"echo '0, 12, 100, 200'; kill -SEGV $$", "nvidia-smi was killed by signal 11"},
        {"yes '0, 12, 100, 200'", "nvidia-smi printed too much"},
        {"echo 'No devices were found'", "nvidia-smi lists no device"},
        {"head -c 10000 /dev/urandom", "nvidia-smi lists no device"},
        {"printf '0, 12, 100, 200, 40, 900, 33.5, cu'", "nvidia-smi lists no device"},
    };
    struct stage *stage = *state;

    setenv("FAKE_NVML", "broken", 1);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        put_smi(stage, cases[i].script);
        stage->absences = 0;
        start(stage, SWITCH_ON);
        AWAIT(stage, stage->absences);
        assert_non_null(strstr(stage->reason, cases[i].words));
        assert_int_equal(gpu_count(stage), 0);
        gpu_watch_close(TAKE_PTR(stage->watch));
        snapshot_free(TAKE_PTR(stage->snapshot));
    }
    start(stage, SWITCH_OFF); /* for the ticks that are left */
}

/* Switched off while it runs: its answer is ignored. */
static void test_smi_switched_off(void **state)
{
    struct stage *stage = *state;

    setenv("FAKE_NVML", "broken", 1);
    put_smi(stage, "sleep 1000");
    start(stage, SWITCH_ON);
    AWAIT(stage, !helpers_is_empty(stage->helpers));
    gpu_watch_configure(stage->watch, SWITCH_OFF);
    AWAIT(stage, helpers_is_empty(stage->helpers));
    put_smi(stage, SMI_ANSWERS);
    assert_status(stage, "profiler.gpu_enabled is false");
    assert_int_equal(gpu_count(stage), 0);
}

/* Closed while it runs: killed. */
static void test_smi_closed(void **state)
{
    struct stage *stage = *state;

    setenv("FAKE_NVML", "broken", 1);
    put_smi(stage, "trap '' TERM; sleep 1000 & wait");
    start(stage, SWITCH_ON);
    AWAIT(stage, !helpers_is_empty(stage->helpers));
}

#define STAGE_TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(test_no_thread_without_a_device),
        STAGE_TEST(test_switched_off_and_on),
        STAGE_TEST(test_start_waits_for_permission),
        STAGE_TEST(test_no_search_before_the_delay),
        STAGE_TEST(test_two_sources_and_their_processes),
        STAGE_TEST(test_driver_that_hangs),
        STAGE_TEST(test_switched_off_and_on_while_a_driver_hangs),
        STAGE_TEST(test_stop_while_a_driver_hangs),
        STAGE_TEST(test_missing_gpu_is_reported_once),
        STAGE_TEST(test_smi_without_nvml),
        STAGE_TEST(test_smi_that_fails),
        STAGE_TEST(test_smi_switched_off),
        STAGE_TEST(test_smi_closed),
    };
    return cmocka_run_group_tests_name("gpu-watch", tests, NULL, NULL);
}
