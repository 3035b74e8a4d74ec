/* A machine with GPUs, made of files: `proc`, `sys` and `dev` below a directory of its own. */
#pragma once

#include <limits.h>
#include <sys/types.h>

#include "probe/gpu/gpu.h"

struct gpu_world {
    char dir[32];
    char proc[48], sys[48], dev[48];
    struct gpu_roots roots; /* the three directories */
};

/* Empty directories. For cmocka: *state is a struct gpu_world. */
int gpu_world_make(void **state);
int gpu_world_remove(void **state);

/* Creates a file with its parent directories; deletes one. */
void world_put(const struct gpu_world *world, const char *path, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void world_drop(const struct gpu_world *world, const char *path);

/* Creates cardN with the files that every card has. `pci_id` NULL: not a PCI device. */
void world_put_card(const struct gpu_world *world, unsigned number, const char *driver,
                    const char *pci_id, const char *pdev);
/* Writes one file of the card, such as "device/hwmon/hwmon3/temp1_input". */
void world_put_figure(const struct gpu_world *world, unsigned number, const char *path,
                      const char *value);

/* Cards recorded on real machines: an RX 7900 XT, an integrated Intel GPU (i915) and an Arc (xe).
 * */
void world_put_radeon(const struct gpu_world *world, unsigned number);
void world_put_i915(const struct gpu_world *world, unsigned number);
void world_put_arc(const struct gpu_world *world, unsigned number);

/* Creates a process that started at `start_ticks`; one of its open files, with target and fdinfo.
 * */
void world_put_process(const struct gpu_world *world, pid_t pid, uint64_t start_ticks);
void world_put_file(const struct gpu_world *world, pid_t pid, int file, const char *target,
                    const char *fdinfo);
