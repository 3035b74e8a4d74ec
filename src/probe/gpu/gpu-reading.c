#include "probe/gpu/gpu-reading.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "probe/pid-namespace.h"
#include "probe/proc-file.h"
#include "probe/proc-stat.h"

struct gpu_reading *gpu_reading_new(void)
{
    struct gpu_reading *reading = calloc(1, sizeof(*reading));

    if (!reading)
        return NULL;
    reading->begun_mono_ns = clock_mono_ns();
    reading->begun_boot_ns = clock_boot_ns();
    return reading;
}

void gpu_reading_free(struct gpu_reading *reading)
{
    if (!reading)
        return;
    VEC_DONE(&reading->gpus);
    VEC_DONE(&reading->processes);
    arena_done(&reading->arena);
    free(reading);
}

void gpu_reading_freep(struct gpu_reading **reading)
{
    gpu_reading_free(*reading);
}

int gpu_reading_add(struct gpu_reading *reading, const struct gpu_metric *gpu)
{
    struct gpu_metric copy = *gpu;

    if (reading->gpus.count >= GPU_DEVICES_MAX)
        return 0;
    if (gpu->name && !(copy.name = arena_strdup(&reading->arena, gpu->name)))
        return -ENOMEM;
    if (gpu->vendor && !(copy.vendor = arena_strdup(&reading->arena, gpu->vendor)))
        return -ENOMEM;
    return VEC_PUSH(&reading->gpus, copy);
}

int gpu_reading_add_process(struct gpu_reading *reading, pid_t pid, int64_t memory_bytes)
{
    if (reading->processes.count >= GPU_PROCESSES_MAX)
        return 0;
    return VEC_PUSH(&reading->processes,
                    (struct gpu_process){.pid = pid, .memory_bytes = memory_bytes});
}

/* ---- identifying processes ---- */

static int compare_pids(const void *a, const void *b)
{
    const struct gpu_process *first = a, *second = b;

    return (first->pid > second->pid) - (first->pid < second->pid);
}

static void merge_processes(struct gpu_reading *reading)
{
    struct gpu_process *items = reading->processes.items;
    size_t kept = 0;

    if (!reading->processes.count)
        return;
    qsort(items, reading->processes.count, sizeof(*items), compare_pids);
    for (size_t i = 1; i < reading->processes.count; i++) {
        if (items[i].pid != items[kept].pid)
            items[++kept] = items[i];
        else if (__builtin_add_overflow(items[kept].memory_bytes, items[i].memory_bytes,
                                        &items[kept].memory_bytes))
            items[kept].memory_bytes = INT64_MAX;
    }
    reading->processes.count = kept + 1;
}

/* 0: there is no such process. */
static uint64_t read_start_ticks(int proc_fd, pid_t pid)
{
    char bytes[1024];
    struct proc_stat stat;

    ssize_t length = proc_file_read(proc_fd, pid, "stat", bytes, sizeof(bytes));
    return length > 0 && proc_stat_parse(bytes, (size_t)length, &stat) == 0 ? stat.start_ticks : 0;
}

void gpu_reading_identify(struct gpu_reading *reading, int proc_fd)
{
    const uint64_t ns_per_tick = NS_PER_SEC / (uint64_t)sysconf(_SC_CLK_TCK);
    /* A process that started within the same tick may have started after the reading began. */
    const uint64_t begun_ticks = reading->begun_boot_ns / ns_per_tick;
    struct gpu_process *items = reading->processes.items;
    size_t kept = 0;

    merge_processes(reading);
    for (size_t i = 0; i < reading->processes.count; i++) {
        uint64_t start_ticks = read_start_ticks(proc_fd, items[i].pid);
        if (!start_ticks || start_ticks >= begun_ticks)
            continue;
        items[kept] = items[i];
        items[kept++].start_ticks = start_ticks;
    }
    reading->processes.count = kept;
}

bool gpu_reading_knows_pids(int proc_fd)
{
    struct stat st;

    /* A fixture has no namespaces. */
    return fstatat(proc_fd, "self/ns/pid", &st, 0) < 0 || st.st_ino == INITIAL_PID_NAMESPACE;
}

const struct gpu_process *gpu_reading_find(const struct gpu_reading *reading, pid_t pid,
                                           uint64_t start_ticks)
{
    const struct gpu_process key = {.pid = pid};

    if (!reading->processes.count)
        return NULL;
    const struct gpu_process *found = bsearch(&key, reading->processes.items,
                                              reading->processes.count, sizeof(key), compare_pids);
    return found && found->start_ticks == start_ticks ? found : NULL;
}
