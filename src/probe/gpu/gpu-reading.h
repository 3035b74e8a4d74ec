/* What a source of GPU figures tells at one moment: devices, and who has memory on them. Owns all
 * that it points to, so that it can be handed over whole from one thread to another. */
#pragma once

#include "base/vec.h"
#include "model/snapshot.h"

/* More are left out: no machine has as many. */
#define GPU_DEVICES_MAX   256
#define GPU_PROCESSES_MAX 65536

/* On all devices of the source together. */
struct gpu_process {
    pid_t pid;
    uint64_t
        start_ticks; /* once gpu_reading_identify() has found it: the other half of who it is */
    int64_t memory_bytes;
};

struct gpu_reading {
    uint64_t asked_mono_ns; /* when the question was begun */
    uint64_t asked_boot_ns;
    struct VEC(struct gpu_metric) gpus;       /* texts in the arena */
    struct VEC(struct gpu_process) processes; /* after gpu_reading_identify(): each once, by pid */
    struct arena arena;
};

/* Empty, and begun now. NULL if there is no memory. */
struct gpu_reading *gpu_reading_new(void);
void gpu_reading_free(struct gpu_reading *reading);
void gpu_reading_freep(struct gpu_reading **reading);

/* Copies the device, texts included. 0, also where there is no room for more, or -ENOMEM. */
int gpu_reading_add(struct gpu_reading *reading, const struct gpu_metric *gpu);
/* The same for what a process has on a device. */
int gpu_reading_add_process(struct gpu_reading *reading, pid_t pid, int64_t memory_bytes);

/* Once all are there: adds up what each process has, and finds out who it is, below the directory
 * `proc_fd`. One that is gone, or was born after the question, is left out: it is not the one that
 * the driver told of. */
void gpu_reading_identify(struct gpu_reading *reading, int proc_fd);

/* Whether this is the first pid namespace: then pids that NVIDIA's driver tells are those below
 * `proc_fd`, and all processes of the machine are there. */
bool gpu_reading_knows_pids(int proc_fd);

/* NULL: it has no memory on any device. */
const struct gpu_process *gpu_reading_find(const struct gpu_reading *reading, pid_t pid,
                                           uint64_t start_ticks);
