/* One reading of a GPU source: devices, and the processes with memory on them. It owns everything
 * that it points to, so that one thread can pass it to another. */
#pragma once

#include "base/vec.h"
#include "model/snapshot.h"

/* Upper limits; more than any machine has. */
#define GPU_DEVICES_MAX   256
#define GPU_PROCESSES_MAX 65536

/* The memory of a process on all devices of the source. */
struct gpu_process {
    pid_t pid;
    uint64_t start_ticks; /* set by gpu_reading_identify() */
    int64_t memory_bytes;
};

struct gpu_reading {
    uint64_t begun_mono_ns; /* when the reading began */
    uint64_t begun_boot_ns;
    struct VEC(struct gpu_metric) gpus;       /* strings in the arena */
    struct VEC(struct gpu_process) processes; /* after gpu_reading_identify(): unique, by pid */
    struct arena arena;
};

/* Returns an empty reading that begins now, or NULL if out of memory. */
struct gpu_reading *gpu_reading_new(void);
void gpu_reading_free(struct gpu_reading *reading);
void gpu_reading_freep(struct gpu_reading **reading);

/* Copies the device with its strings. Returns 0, also if the limit is reached, or -ENOMEM. */
int gpu_reading_add(struct gpu_reading *reading, const struct gpu_metric *gpu);
/* The same for the memory of a process on one device. */
int gpu_reading_add_process(struct gpu_reading *reading, pid_t pid, int64_t memory_bytes);

/* Call it after all processes were added: sums the memory of each process over all devices, and
 * reads its start time below `proc_fd`. Removes processes that are gone or started after the
 * reading began, because the driver cannot have meant them. */
void gpu_reading_identify(struct gpu_reading *reading, int proc_fd);

/* Returns whether `proc_fd` is of the initial pid namespace: only then are the pids of NVIDIA's
 * driver valid, and all processes of the machine visible. */
bool gpu_reading_knows_pids(int proc_fd);

/* Returns the process, or NULL if it has no memory on any device. */
const struct gpu_process *gpu_reading_find(const struct gpu_reading *reading, pid_t pid,
                                           uint64_t start_ticks);
