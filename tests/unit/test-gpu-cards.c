/* AMD's and Intel's GPUs, and who uses them: trees as their drivers make them. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <grp.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"
#include "gpu-world.h"
#include "probe/gpu/drm-cards.h"
#include "probe/gpu/drm-clients.h"
#include "probe/pid-namespace.h"

#define SECOND NS_PER_SEC
/* Between looks whose rates are compared: the time of a walk is part of what they are over, and
 * nothing next to this. */
#define AGE (1000 * SECOND)

static struct drm_cards *open_cards(const struct gpu_world *world)
{
    struct drm_cards *cards = NULL;
    const char *reason = NULL;

    assert_int_equal(drm_cards_open(world->sys, world->proc, &cards, &reason), 0);
    return cards;
}

static struct gpu_metric read_card(struct drm_cards *cards, unsigned index, uint64_t mono_ns)
{
    struct gpu_metric gpu;

    assert_int_equal(drm_cards_read(cards, index, mono_ns, &gpu), 0);
    assert_int_equal(gpu.index, index);
    return gpu;
}

/* ---- sysfs ---- */

static void amd(void **state)
{
    const struct gpu_world *world = *state;

    world_put_radeon(world, 0);
    struct drm_cards *cards = open_cards(world);
    assert_int_equal(drm_cards_count(cards), 1);
    struct gpu_metric gpu = read_card(cards, 0, SECOND);
    assert_string_equal(gpu.vendor, "AMD");
    assert_string_equal(gpu.name, "amdgpu 1002:744C");
    assert_true(gpu.utilization_pct == 37 && gpu.memory_used_mb == 3072);
    assert_true(gpu.memory_total_mb == 20464 && gpu.temperature_c == 54.5);
    assert_true(fabs(gpu.clock_mhz - 2431) < 1e-9 && fabs(gpu.power_w - 118.25) < 1e-9);
    drm_cards_close(cards);
}

static void amd_newer_names(void **state)
{
    const struct gpu_world *world = *state;

    world_put_radeon(world, 0);
    world_put_figure(world, 0, "device/product_name", "AMD Instinct MI210");
    world_drop(world, "sys/class/drm/card0/device/hwmon/hwmon4/power1_average");
    world_put_figure(world, 0, "device/hwmon/hwmon4/power1_input", "99000000");
    struct drm_cards *cards = open_cards(world);
    struct gpu_metric gpu = read_card(cards, 0, SECOND);
    assert_string_equal(gpu.name, "AMD Instinct MI210");
    assert_true(fabs(gpu.power_w - 99) < 1e-9);
    drm_cards_close(cards);
}

static void intel_integrated(void **state)
{
    const struct gpu_world *world = *state;

    world_put_i915(world, 1);
    struct drm_cards *cards = open_cards(world);
    struct gpu_metric gpu = read_card(cards, 0, SECOND);
    assert_string_equal(gpu.vendor, "Intel");
    assert_true(gpu.clock_mhz == 1300);
    assert_true(isnan(gpu.memory_used_mb) && isnan(gpu.memory_total_mb));
    assert_true(isnan(gpu.temperature_c) && isnan(gpu.power_w));
    drm_cards_close(cards);
}

/* Power is energy over time: unknown at first, and after the counter has begun anew. */
static void intel_discrete(void **state)
{
    const struct gpu_world *world = *state;

    world_put_arc(world, 0);
    struct drm_cards *cards = open_cards(world);
    struct gpu_metric gpu = read_card(cards, 0, SECOND);
    assert_true(gpu.clock_mhz == 2400 && gpu.temperature_c == 61 && isnan(gpu.power_w));
    world_put_figure(world, 0, "device/hwmon/hwmon2/energy1_input", "45000000");
    gpu = read_card(cards, 0, 3 * SECOND);
    assert_true(fabs(gpu.power_w - 20) < 1e-9);
    gpu = read_card(cards, 0, 3 * SECOND + 1000); /* too soon to tell */
    assert_true(fabs(gpu.power_w - 20) < 1e-9);
    world_put_figure(world, 0, "device/hwmon/hwmon2/energy1_input", "7");
    assert_true(isnan(read_card(cards, 0, 4 * SECOND).power_w));
    world_put_figure(world, 0, "device/hwmon/hwmon2/energy1_input", "8000007");
    assert_true(fabs(read_card(cards, 0, 5 * SECOND).power_w - 8) < 1e-9);
    drm_cards_close(cards);
}

/* In the order of their numbers, NVIDIA's own left out, and what only shows pictures. */
static void several_cards(void **state)
{
    const struct gpu_world *world = *state;

    world_put_arc(world, 10);
    world_put_radeon(world, 2);
    world_put_card(world, 3, "nvidia", "10DE:2204", "0000:09:00.0");
    world_put_card(world, 4, "ast", "1A03:2000", "0000:0a:00.0");
    world_drop(world, "sys/class/drm/card4/device/drm");
    world_put_card(world, 1, "nouveau", "10DE:1C03", "0000:0b:00.0");
    world_put_card(world, 5, "panfrost", NULL, NULL);
    world_put(world, "sys/class/drm/card6/device/uevent", "MODALIAS=x\n"); /* no driver */
    world_put(world, "sys/class/drm/version", "drm 1.1.0 20060810\n");
    struct drm_cards *cards = open_cards(world);

    assert_int_equal(drm_cards_count(cards), 4);
    assert_string_equal(read_card(cards, 0, SECOND).vendor, "NVIDIA"); /* by nouveau */
    assert_string_equal(read_card(cards, 1, SECOND).vendor, "AMD");
    assert_null(read_card(cards, 2, SECOND).vendor);
    assert_string_equal(read_card(cards, 2, SECOND).name, "panfrost");
    assert_string_equal(read_card(cards, 3, SECOND).vendor, "Intel");
    drm_cards_close(cards);
}

static void a_card_that_sleeps_is_not_read(void **state)
{
    const struct gpu_world *world = *state;

    world_put_radeon(world, 0);
    world_put_figure(world, 0, "device/power/runtime_status", "suspended");
    struct drm_cards *cards = open_cards(world);
    struct gpu_metric gpu = read_card(cards, 0, SECOND);
    assert_true(gpu.utilization_pct == 0);
    assert_true(isnan(gpu.memory_used_mb) && isnan(gpu.temperature_c) && isnan(gpu.power_w));
    drm_cards_close(cards);
}

static size_t count_processes(struct drm_cards *cards, uint64_t mono_ns)
{
    struct gpu_reading *reading = gpu_reading_new();

    assert_non_null(reading);
    assert_int_equal(drm_cards_read_processes(cards, mono_ns, reading), 0);
    size_t count = reading->processes.count;
    gpu_reading_free(reading);
    return count;
}

/* Nor are the files that processes hold: reading them would wake it. */
static void nor_are_its_files(void **state)
{
    const struct gpu_world *world = *state;

    world_put_radeon(world, 0);
    world_put_process(world, 100, 50);
    world_put_file(world, 100, 3, "/dev/dri/renderD128",
                   "drm-driver:\tamdgpu\ndrm-pdev:\t0000:03:00.0\ndrm-memory-vram:\t1 MiB\n");
    struct drm_cards *cards = open_cards(world);
    assert_int_equal(count_processes(cards, SECOND), 1);
    world_put_figure(world, 0, "device/power/runtime_status", "suspended");
    assert_int_equal(count_processes(cards, 2 * SECOND), 0);
    world_put_figure(world, 0, "device/power/runtime_status", "active");
    assert_int_equal(count_processes(cards, 3 * SECOND), 1);
    drm_cards_close(cards);
}

static void files_that_say_nothing(void **state)
{
    const struct gpu_world *world = *state;
    struct gpu_metric gpu;

    world_put_radeon(world, 0);
    world_put_i915(world, 1);
    world_put_figure(world, 0, "device/gpu_busy_percent", "250");
    world_put_figure(world, 0, "device/mem_info_vram_used", "lots");
    world_put_figure(world, 0, "device/mem_info_vram_total", "99999999999999999999999");
    world_put_figure(world, 0, "device/hwmon/hwmon4/temp1_input", "-5500");
    world_put_figure(world, 0, "device/hwmon/hwmon4/freq1_input", "");
    struct drm_cards *cards = open_cards(world);
    gpu = read_card(cards, 0, SECOND);
    assert_true(isnan(gpu.utilization_pct) && isnan(gpu.memory_used_mb));
    assert_true(isnan(gpu.memory_total_mb) && isnan(gpu.clock_mhz));
    assert_true(gpu.temperature_c == -5.5);
    world_drop(world, "sys/class/drm/card0"); /* it was pulled out */
    assert_int_equal(drm_cards_read(cards, 0, SECOND, &gpu), -ENODEV);
    assert_int_equal(drm_cards_read(cards, 1, SECOND, &gpu), 0);
    assert_int_equal(drm_cards_read(cards, 2, SECOND, &gpu), -ENODEV);
    drm_cards_close(cards);
}

static void none(void **state)
{
    const struct gpu_world *world = *state;
    struct drm_cards *cards = NULL;
    const char *reason = NULL;

    assert_false(drm_cards_may_be(world->sys));
    assert_false(drm_cards_may_be("/nowhere"));
    assert_int_equal(drm_cards_open(world->sys, world->proc, &cards, &reason), -ENODEV);
    assert_non_null(strstr(reason, "/sys/class/drm"));
    world_put(world, "sys/class/drm/card0/device/uevent", "DRIVER=ast\n");
    assert_true(drm_cards_may_be(world->sys)); /* until it is looked at */
    assert_int_equal(drm_cards_open(world->sys, world->proc, &cards, &reason), -ENODEV);
    assert_null(cards);
}

/* ---- clients ---- */

/* Seconds and MiB. */
#define I915_CLIENT(id, render, video, memory)                                                     \
    "drm-driver:\ti915\ndrm-client-id:\t" #id "\ndrm-pdev:\t0000:00:02.0\n"                        \
    "drm-resident-system0:\t" #memory " MiB\ndrm-engine-render:\t" #render "000000000 ns\n"        \
    "drm-engine-video:\t" #video "000000000 ns\ndrm-engine-capacity-video:\t2\n"

static double busy_at(struct drm_cards *cards, uint64_t mono_ns)
{
    return read_card(cards, 0, mono_ns).utilization_pct;
}

static bool is_about(double value, double expected)
{
    return fabs(value - expected) < 0.5;
}

/* The busiest engine, over all clients; a client that several processes hold counts once. */
static void busy_by_engine_time(void **state)
{
    const struct gpu_world *world = *state;

    world_put_i915(world, 0);
    world_put_process(world, 100, 50);
    world_put_process(world, 101, 60);
    world_put_file(world, 100, 5, "/dev/dri/renderD128", I915_CLIENT(1, 1000, 0, 10));
    world_put_file(world, 101, 7, "/dev/dri/card0", I915_CLIENT(2, 0, 5, 20));
    struct drm_cards *cards = open_cards(world);

    assert_true(isnan(busy_at(cards, 10 * AGE))); /* a rate takes two looks */
    world_put_file(world, 100, 5, "/dev/dri/renderD128", I915_CLIENT(1, 1400, 0, 10));
    world_put_file(world, 101, 7, "/dev/dri/card0", I915_CLIENT(2, 200, 1005, 20));
    assert_true(is_about(busy_at(cards, 12 * AGE), 30)); /* 400 + 200 s of 2000 s */
    world_put_file(world, 101, 7, "/dev/dri/card0", I915_CLIENT(2, 200, 9005, 20));
    assert_true(is_about(busy_at(cards, 16 * AGE), 100)); /* 8 of 4, by two engines */

    /* the same file in a child: not twice; a counter that fell back: not less than before */
    world_put_process(world, 102, 70);
    world_put_file(world, 102, 5, "/dev/dri/renderD128", I915_CLIENT(1, 1300, 0, 10));
    world_put_file(world, 100, 5, "/dev/dri/renderD128", I915_CLIENT(1, 1300, 0, 10));
    assert_true(busy_at(cards, 22 * AGE) == 0);
    world_put_file(world, 100, 5, "/dev/dri/renderD128", I915_CLIENT(1, 2400, 0, 10));
    world_put_file(world, 102, 5, "/dev/dri/renderD128", I915_CLIENT(1, 2400, 0, 10));
    assert_true(is_about(busy_at(cards, 24 * AGE), 50));
    drm_cards_close(cards);
}

static void busy_by_cycles(void **state)
{
    static const char format[] = "drm-driver:\txe\ndrm-client-id:\t3\ndrm-pdev:\t0000:04:00.0\n"
                                 "drm-cycles-rcs:\t%d\ndrm-total-cycles-rcs:\t%d\n"
                                 "drm-cycles-ccs:\t%d\ndrm-total-cycles-ccs:\t%d\n"
                                 "drm-engine-capacity-ccs:\t4\n";
    const struct gpu_world *world = *state;
    char text[512];

    world_put_arc(world, 0);
    world_put_process(world, 100, 50);
    snprintf(text, sizeof(text), format, 0, 1000, 0, 1000);
    world_put_file(world, 100, 4, "/dev/dri/renderD128", text);
    struct drm_cards *cards = open_cards(world);
    busy_at(cards, SECOND);
    snprintf(text, sizeof(text), format, 100, 2000, 3000, 2000);
    world_put_file(world, 100, 4, "/dev/dri/renderD128", text);
    assert_true(fabs(busy_at(cards, 2 * SECOND) - 75) < 1e-9);     /* 3000 of 1000, by four */
    assert_true(fabs(busy_at(cards, 2 * SECOND + 5) - 75) < 1e-9); /* too soon to look again */
    drm_cards_close(cards);
}

/* Without a PCI address, a file is of the card whose node it is; the driver may be called otherwise
 * there. */
static void busy_by_node(void **state)
{
    static const char format[] =
        "drm-driver:\tmsm\ndrm-client-id:\t%d\ndrm-engine-gpu:\t%d000000000 ns\n";
    const struct gpu_world *world = *state;
    char text[256];

    world_put_card(world, 0, "msm_dpu", NULL, NULL); /* renderD128 */
    world_put_card(world, 1, "panfrost", NULL, NULL);
    world_put_process(world, 100, 50);
    snprintf(text, sizeof(text), format, 1, 0);
    world_put_file(world, 100, 4, "/dev/dri/renderD128", text);
    snprintf(text, sizeof(text), format, 2, 0);
    world_put_file(world, 100, 5, "/dev/dri/card0", text);
    struct drm_cards *cards = open_cards(world);
    busy_at(cards, AGE);
    snprintf(text, sizeof(text), format, 1, 500);
    world_put_file(world, 100, 4, "/dev/dri/renderD128", text);
    snprintf(text, sizeof(text), format, 2, 250);
    world_put_file(world, 100, 5, "/dev/dri/card0", text);
    assert_true(is_about(busy_at(cards, 2 * AGE), 75));
    assert_true(read_card(cards, 1, 2 * AGE).utilization_pct == 0);
    drm_cards_close(cards);
}

/* Nobody holds it: it is idle. A driver that does not tell: unknown. */
static void idle_or_unknown(void **state)
{
    const struct gpu_world *world = *state;

    world_put_i915(world, 0);
    world_put_process(world, 100, 50);
    struct drm_cards *cards = open_cards(world);
    busy_at(cards, SECOND);
    assert_true(busy_at(cards, 2 * SECOND) == 0);
    world_put_file(world, 100, 4, "/dev/dri/card0",
                   "drm-driver:\ti915\ndrm-client-id:\t1\ndrm-pdev:\t0000:00:02.0\n");
    busy_at(cards, 10 * SECOND);
    assert_true(isnan(busy_at(cards, 11 * SECOND)));
    /* of another card */
    world_put_file(world, 100, 4, "/dev/dri/card1",
                   "drm-driver:\ti915\ndrm-client-id:\t1\ndrm-pdev:\t0000:07:00.0\n");
    busy_at(cards, 20 * SECOND);
    assert_true(busy_at(cards, 21 * SECOND) == 0);
    drm_cards_close(cards);
}

static const struct drm_device i915 = {.pdev = "0000:00:02.0", .card = 0, .render = 128};

static struct drm_clients *new_clients(const struct gpu_world *world)
{
    struct drm_clients *clients = NULL;

    assert_int_equal(drm_clients_new(world->proc, &clients), 0);
    return clients;
}

/* With a walk each. */
static double busy_of(struct drm_clients *clients, const struct drm_device *device, unsigned age)
{
    drm_clients_look(clients, age * AGE, NULL, 0);
    return drm_clients_busy_pct(clients, device);
}

/* One file that its driver tells nothing of, and the whole is unknown; on that device alone. */
static void files_that_are_not_told_of(void **state)
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
    /* that number is of another file now: known at once, not only by the next walk */
    world_put_file(world, 100, 5, "/dev/null", "pos:\t0\nflags:\t02\nmnt_id:\t30\n");
    drm_clients_look(clients, (age - 1) * AGE + SECOND, NULL, 0);
    assert_true(drm_clients_busy_pct(clients, &i915) == 0);
    drm_clients_free(clients);
}

/* The files are read after the walk, so that what they tell is of that time. */
static void a_walk_takes_time(void **state)
{
    const struct gpu_world *world = *state;
    struct drm_clients *clients = new_clients(world);

    world_put_process(world, 100, 50);
    world_put_file(world, 100, 4, "/dev/dri/renderD128", I915_CLIENT(1, 0, 0, 10));
    uint64_t begun_ns = clock_mono_ns();
    drm_clients_look(clients, AGE, NULL, 0);
    double walk_sec = (double)(clock_mono_ns() - begun_ns) / 1e9;
    world_put_file(world, 100, 4, "/dev/dri/renderD128", I915_CLIENT(1, 2, 0, 10));
    drm_clients_look(clients, AGE + 4 * SECOND, NULL, 0); /* too soon for a walk */
    double busy_pct = drm_clients_busy_pct(clients, &i915);
    assert_true(busy_pct > 50);
    assert_true(walk_sec >= 2 || busy_pct <= 2 / (4 - walk_sec) * 100);
    drm_clients_free(clients);
}

/* ---- what cannot be seen ---- */

static void become(uid_t uid)
{
    assert_int_equal(getuid() == 0 ? seteuid(uid) : 0, 0);
}

/* What some processes do is hidden: a part is not the whole. (Nothing is hidden from root.) Their
 * descriptors, or, as hidepid=noaccess does it, all that they have. */
static void hidden_processes(void **state)
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

/* As the kernel's own tree is: `self`, which is us. */
static void link_self(const struct gpu_world *world)
{
    char path[PATH_MAX], pid[16];

    snprintf(path, sizeof(path), "%s/self", world->proc);
    snprintf(pid, sizeof(pid), "%d", (int)getpid());
    assert_int_equal(symlink(pid, path), 0);
}

/* hidepid=invisible: there is always a first process. */
static void processes_that_are_not_listed(void **state)
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

/* What the kernel does with its options, as another user; and in a pid namespace of one's own, as
 * root: there, all of it is a part. */
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
static int become_nobody(void)
{
    return setgroups(0, NULL) < 0 || setresgid(65534, 65534, 65534) < 0 ||
                   setresuid(65534, 65534, 65534) < 0
               ? -1
               : prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

static int look_through(const struct gpu_world *world, size_t i)
{
    struct drm_clients *clients = NULL;

    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("proc", world->proc, "proc", 0, proc_mounts[i].options) < 0 ||
        (!proc_mounts[i].is_root && become_nobody() < 0) ||
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

/* A child of its own for each, with mounts that nobody else sees. */
static int look_apart(const struct gpu_world *world, size_t i)
{
    const bool in_namespace = proc_mounts[i].in_namespace;
    pid_t pid = fork();

    if (pid == 0) {
        if (unshare(CLONE_NEWNS | (in_namespace ? CLONE_NEWPID : 0)) < 0)
            _exit(NOT_ALLOWED);
        pid = in_namespace ? fork() : 0; /* the child is the namespace's first */
        _exit(pid == 0 ? look_through(world, i) : status_of(pid));
    }
    return status_of(pid);
}

static int is_refused(const char *path _unused_, int error)
{
    return error != ENOENT && error != ESRCH;
}

/* Whether all processes of this machine can be looked into from here, found in another way. */
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

static void mounts_that_hide(void **state)
{
    const struct gpu_world *world = *state;

    assert_int_equal(chmod(world->proc, 0755) | chmod(world->dir, 0755), 0);
    for (size_t i = 0; i < ARRAY_SIZE(proc_mounts); i++) {
        int result = look_apart(world, i);
        if (result == NOT_ALLOWED)
            skip();
        assert_int_equal(result, proc_mounts[i].is_known && sees_all() ? KNOWN : UNKNOWN);
    }
}

/* ---- processes ---- */

static struct gpu_reading *processes_at(const struct gpu_world *world, struct drm_clients *clients,
                                        uint64_t mono_ns)
{
    struct gpu_reading *reading = gpu_reading_new();
    int proc_fd = open(world->proc, O_PATH | O_DIRECTORY | O_CLOEXEC);

    assert_non_null(reading);
    drm_clients_look(clients, mono_ns, NULL, 0);
    assert_int_equal(drm_clients_read_processes(clients, &i915, 1, reading), 0);
    gpu_reading_identify(reading, proc_fd);
    close(proc_fd);
    return reading;
}

static void memory_of_processes(void **state)
{
    const struct gpu_world *world = *state;
    struct drm_clients *clients = new_clients(world);

    world_put_process(world, 100, 50);
    world_put_process(world, 101, 60);
    world_put_process(world, 102, UINT64_C(1) << 60); /* born after the question */
    world_put_file(world, 100, 5, "/dev/dri/renderD128", I915_CLIENT(1, 0, 0, 10));
    world_put_file(world, 100, 6, "/dev/dri/renderD128", I915_CLIENT(1, 0, 0, 10)); /* dup */
    world_put_file(world, 100, 7, "/dev/dri/renderD129", I915_CLIENT(2, 0, 0, 30));
    world_put_file(world, 101, 5, "/dev/dri/renderD128", I915_CLIENT(1, 0, 0, 10)); /* shared */
    world_put_file(world, 101, 6, "/dev/dri/card0", "drm-driver:\tnouveau\n"); /* tells nothing */
    world_put_file(world, 101, 7, "/tmp/dri/card0", I915_CLIENT(9, 0, 0, 90)); /* no device */
    world_put_file(world, 102, 3, "/dev/dri/renderD128", I915_CLIENT(3, 0, 0, 40));
    world_put_file(world, 101, 8, "/dev/dri/renderD130", /* not ours to tell of */
                   "drm-driver:\tnvidia-drm\ndrm-pdev:\t0000:09:00.0\ndrm-memory-vram:\t9 MiB\n");
    struct gpu_reading *reading = processes_at(world, clients, SECOND);
    assert_int_equal(reading->processes.count, 1);
    assert_int_equal(gpu_reading_find(reading, 100, 50)->memory_bytes, 40 << 20);
    assert_null(gpu_reading_find(reading, 100, 51)); /* another of that pid */
    assert_null(gpu_reading_find(reading, 101, 60));
    gpu_reading_free(reading);

    /* In between, files that are known are read; new ones are found with the next walk. */
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
    /* who shared the file has it now */
    assert_int_equal(gpu_reading_find(reading, 101, 60)->memory_bytes, 17 << 20);
    gpu_reading_free(reading);
    drm_clients_free(clients);
}

static void many_come_and_go(void **state)
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
static void clients_told_apart(void **state)
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
    drm_clients_look(clients, SECOND, NULL, 0);
    struct gpu_reading *reading = gpu_reading_new();
    assert_non_null(reading);
    assert_int_equal(drm_clients_read_processes(clients, both, 2, reading), 0);
    for (size_t i = 0; i < reading->processes.count; i++)
        sum += reading->processes.items[i].memory_bytes;
    assert_int_equal(sum, INT64_C(411) << 20);
    gpu_reading_free(reading);
    drm_clients_free(clients);
}

/* What drm-clients.c keeps at most, of one process and in all. */
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

/* Whoever opens thousands does not make us keep and read them all; what is left out makes the sum
 * unknown, and as soon as nothing is, it is known again. */
static void more_files_than_are_read(void **state)
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

/* ---- the walk that leaves out what has not changed ---- */

static off_t size_of(const struct gpu_world *world, const char *path)
{
    char whole[PATH_MAX];
    struct stat st;

    snprintf(whole, sizeof(whole), "%s/%s", world->dir, path);
    assert_int_equal(stat(whole, &st), 0);
    return st.st_size;
}

/* File systems differ in what makes a directory larger; enough long names do in all. */
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

/* A file in the place of another: as many as before. */
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

static void a_number_of_descriptors_that_changed(void **state)
{
    const struct gpu_world *world = *state;
    struct drm_clients *clients = clients_of_self(world);

    assert_false(is_found_at(world, clients, 100, 1));
    replace_file(world, 100, 0);
    assert_false(is_found_at(world, clients, 100, 2)); /* not looked into */
    grow_descriptors(world, 100);
    assert_true(is_found_at(world, clients, 100, 3));
    assert_true(is_found_at(world, clients, 100, 4)); /* known, without being looked into */
    drm_clients_free(clients);
}

static void another_process_of_that_pid(void **state)
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

/* Every twelfth walk looks into all. A file that is not one any more has its process looked into
 * by the next. */
static void all_of_them_now_and_then(void **state)
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

/* ---- this machine ---- */

/* No card has these numbers. */
static const struct drm_device no_card = {.pdev = "none", .card = 61001, .render = 61002};

/* A child that has a /dev of its own, and opens ('o') and closes ('c') a node there as it is told;
 * it answers any letter with the same once that is done, and with 'n' if it cannot. */
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

static bool tell(int orders_fd, int answers_fd, char order)
{
    char answer = 'n';

    return write(orders_fd, &order, 1) == 1 && read(answers_fd, &answer, 1) == 1 && answer == order;
}

/* The descriptors are the kernel's own, the tree that they are in is not. */
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

/* A regular file in the place of a node tells nothing, so that it is seen by what is unknown. */
static void watch_child(struct drm_clients *clients, int orders_fd, int answers_fd)
{
    busy_of(clients, &no_card, 1);
    assert_true(busy_of(clients, &no_card, 2) == 0);
    for (unsigned age = 3; age < 9; age += 3) {
        assert_true(tell(orders_fd, answers_fd, 'o'));
        assert_true(isnan(busy_of(clients, &no_card, age)));
        assert_true(isnan(busy_of(clients, &no_card, age + 1)));
        assert_true(tell(orders_fd, answers_fd, 'c'));
        assert_true(busy_of(clients, &no_card, age + 2) == 0);
    }
}

static void the_real_descriptors(void **state)
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
    if (!tell(orders[1], answers[0], 'r')) /* it may not have a /dev of its own */
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

/* Nobody has a file of this device, and whether that can be known. */
static void the_real_proc(void **state _unused_)
{
    struct drm_clients *clients = NULL;

    assert_int_equal(drm_clients_new("/proc", &clients), 0);
    assert_true(isnan(busy_of(clients, &no_card, 1)));
    assert_int_equal(isnan(busy_of(clients, &no_card, 2)), !sees_all());
    drm_clients_free(clients);
    assert_int_equal(drm_clients_new("/nowhere", &clients), -ENOENT);
}

#define WORLD_TEST(function)                                                                       \
    cmocka_unit_test_setup_teardown(function, gpu_world_make, gpu_world_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORLD_TEST(amd),
        WORLD_TEST(amd_newer_names),
        WORLD_TEST(intel_integrated),
        WORLD_TEST(intel_discrete),
        WORLD_TEST(several_cards),
        WORLD_TEST(a_card_that_sleeps_is_not_read),
        WORLD_TEST(nor_are_its_files),
        WORLD_TEST(files_that_say_nothing),
        WORLD_TEST(none),
        WORLD_TEST(busy_by_engine_time),
        WORLD_TEST(busy_by_cycles),
        WORLD_TEST(busy_by_node),
        WORLD_TEST(idle_or_unknown),
        WORLD_TEST(files_that_are_not_told_of),
        WORLD_TEST(a_walk_takes_time),
        WORLD_TEST(hidden_processes),
        WORLD_TEST(processes_that_are_not_listed),
        WORLD_TEST(mounts_that_hide),
        WORLD_TEST(memory_of_processes),
        WORLD_TEST(many_come_and_go),
        WORLD_TEST(clients_told_apart),
        WORLD_TEST(more_files_than_are_read),
        WORLD_TEST(a_number_of_descriptors_that_changed),
        WORLD_TEST(another_process_of_that_pid),
        WORLD_TEST(all_of_them_now_and_then),
        WORLD_TEST(the_real_descriptors),
        cmocka_unit_test(the_real_proc),
    };
    return cmocka_run_group_tests_name("gpu-cards", tests, NULL, NULL);
}
