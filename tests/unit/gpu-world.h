/* A machine with GPUs, made of files: `proc`, `sys` and `dev` below a directory of its own. */
#pragma once

#include <limits.h>
#include <sys/types.h>

#include "probe/gpu/gpu.h"

struct gpu_world {
    char dir[32];
    char proc[48], sys[48], dev[48];
    struct gpu_roots roots; /* the three */
};

/* Empty directories. For cmocka: *state is a struct gpu_world. */
int gpu_world_make(void **state);
int gpu_world_remove(void **state);

/* A file, with the directories above it; or the end of one. */
void world_put(const struct gpu_world *world, const char *path, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void world_drop(const struct gpu_world *world, const char *path);

/* cardN: the files that every card has. `pci_id` may be NULL: it is no PCI device. */
void world_put_card(const struct gpu_world *world, unsigned number, const char *driver,
                    const char *pci_id, const char *pdev);
/* One file of its device, such as "hwmon/hwmon3/temp1_input". */
void world_put_figure(const struct gpu_world *world, unsigned number, const char *path,
                      const char *value);

/* The cards that were written down on real machines: an RX 7900 XT, an integrated one of Intel's
 * (i915) and an Arc (xe). */
void world_put_radeon(const struct gpu_world *world, unsigned number);
void world_put_i915(const struct gpu_world *world, unsigned number);
void world_put_arc(const struct gpu_world *world, unsigned number);

/* A process that started at `start_ticks`; one of its files: its target and its fdinfo. */
void world_put_process(const struct gpu_world *world, pid_t pid, uint64_t start_ticks);
void world_put_file(const struct gpu_world *world, pid_t pid, int file, const char *target,
                    const char *fdinfo);
