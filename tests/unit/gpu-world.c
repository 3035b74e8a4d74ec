#include "gpu-world.h"

#include "unit.h"

#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void make_parents(char *path)
{
    char *last = strrchr(path, '/');

    *last = '\0';
    bool are_there = access(path, F_OK) == 0;
    *last = '/';
    if (are_there)
        return;
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
}

static void path_of(const struct gpu_world *world, const char *path, char ret[static PATH_MAX])
{
    snprintf(ret, PATH_MAX, "%s/%s", world->dir, path);
    make_parents(ret);
}

int gpu_world_make(void **state)
{
    struct gpu_world *world = calloc(1, sizeof(*world));

    if (!world)
        return -1;
    strcpy(world->dir, "/tmp/sonde-gpu-XXXXXX");
    if (!mkdtemp(world->dir))
        return -1;
    snprintf(world->proc, sizeof(world->proc), "%s/proc", world->dir);
    snprintf(world->sys, sizeof(world->sys), "%s/sys", world->dir);
    snprintf(world->dev, sizeof(world->dev), "%s/dev", world->dir);
    mkdir(world->proc, 0700);
    mkdir(world->sys, 0700);
    mkdir(world->dev, 0700);
    world->roots = (struct gpu_roots){.proc = world->proc, .sys = world->sys, .dev = world->dev};
    *state = world;
    return 0;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *walk)
{
    (void)st, (void)type, (void)walk;
    return remove(path);
}

int gpu_world_remove(void **state)
{
    struct gpu_world *world = *state;

    nftw(world->dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    free(world);
    return 0;
}

void world_put(const struct gpu_world *world, const char *path, const char *format, ...)
{
    char whole[PATH_MAX];
    va_list arguments;

    path_of(world, path, whole);
    FILE *file = fopen(whole, "we");
    assert_non_null(file);
    va_start(arguments, format);
    vfprintf(file, format, arguments);
    va_end(arguments);
    fclose(file);
}

void world_drop(const struct gpu_world *world, const char *path)
{
    char whole[PATH_MAX];

    path_of(world, path, whole);
    nftw(whole, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

void world_put_figure(const struct gpu_world *world, unsigned number, const char *path,
                      const char *value)
{
    char name[256];

    snprintf(name, sizeof(name), "sys/class/drm/card%u/%s", number, path);
    world_put(world, name, "%s\n", value);
}

void world_put_card(const struct gpu_world *world, unsigned number, const char *driver,
                    const char *pci_id, const char *pdev)
{
    char path[128];

    snprintf(path, sizeof(path), "sys/class/drm/card%u/device/uevent", number);
    if (pci_id)
        world_put(world, path, "DRIVER=%s\nPCI_CLASS=30000\nPCI_ID=%s\nPCI_SLOT_NAME=%s\n", driver,
                  pci_id, pdev);
    else
        world_put(world, path, "DRIVER=%s\nOF_NAME=gpu\nOF_COMPATIBLE_0=arm,mali\n", driver);
    snprintf(path, sizeof(path), "device/drm/renderD%u/dev", 128 + number);
    world_put_figure(world, number, path, "226:128");
    snprintf(path, sizeof(path), "sys/class/drm/card%u-DP-1/status", number);
    world_put(world, path, "connected\n");
}

void world_put_radeon(const struct gpu_world *world, unsigned number)
{
    world_put_card(world, number, "amdgpu", "1002:744C", "0000:03:00.0");
    world_put_figure(world, number, "device/power/runtime_status", "active");
    world_put_figure(world, number, "device/gpu_busy_percent", "37");
    world_put_figure(world, number, "device/mem_info_vram_total", "21458059264");
    world_put_figure(world, number, "device/mem_info_vram_used", "3221225472");
    world_put_figure(world, number, "device/hwmon/hwmon4/name", "amdgpu");
    world_put_figure(world, number, "device/hwmon/hwmon4/temp1_input", "54500");
    world_put_figure(world, number, "device/hwmon/hwmon4/freq1_input", "2431000000");
    world_put_figure(world, number, "device/hwmon/hwmon4/power1_average", "118250000");
}

void world_put_i915(const struct gpu_world *world, unsigned number)
{
    world_put_card(world, number, "i915", "8086:A7A0", "0000:00:02.0");
    world_put_figure(world, number, "device/power/runtime_status", "active");
    world_put_figure(world, number, "gt_act_freq_mhz", "1300");
    world_put_figure(world, number, "gt_cur_freq_mhz", "1350");
}

void world_put_arc(const struct gpu_world *world, unsigned number)
{
    world_put_card(world, number, "xe", "8086:56A0", "0000:04:00.0");
    world_put_figure(world, number, "device/tile0/gt0/freq0/act_freq", "2400");
    world_put_figure(world, number, "device/hwmon/hwmon1/name", "xe_gt0");
    world_put_figure(world, number, "device/hwmon/hwmon1/energy1_input", "1");
    world_put_figure(world, number, "device/hwmon/hwmon2/name", "xe");
    world_put_figure(world, number, "device/hwmon/hwmon2/energy1_input", "5000000");
    world_put_figure(world, number, "device/hwmon/hwmon2/temp2_input", "61000");
}

void world_put_process(const struct gpu_world *world, pid_t pid, uint64_t start_ticks)
{
    char path[64];

    snprintf(path, sizeof(path), "proc/%d/stat", (int)pid);
    world_put(world, path,
              "%d (a b) S 1 %d %d 0 -1 4194304 100 0 0 0 5 3 0 0 20 0 1 0 %llu 10000000 500 "
              "18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 140000 0 0 0 0\n",
              (int)pid, (int)pid, (int)pid, (unsigned long long)start_ticks);
    world_put_file(world, pid, 0, "/dev/null", "pos:\t0\nflags:\t02\nmnt_id:\t30\n");
}

void world_put_file(const struct gpu_world *world, pid_t pid, int file, const char *target,
                    const char *fdinfo)
{
    char path[64], whole[PATH_MAX];

    snprintf(path, sizeof(path), "proc/%d/fd/%d", (int)pid, file);
    path_of(world, path, whole);
    unlink(whole);
    assert_int_equal(symlink(target, whole), 0);
    snprintf(path, sizeof(path), "proc/%d/fdinfo/%d", (int)pid, file);
    world_put(world, path, "%s", fdinfo);
}
