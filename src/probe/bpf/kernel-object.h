/* Internal declarations that the files of the kernel probe share. */
#pragma once

#include "base/map.h"
#include "probe/bpf/endings.h"
#include "probe/bpf/kernel-probe.h"
#include "probe/bpf/kernel-records.h"
#include "probe/bpf/process-peaks.h"

struct kernel;
struct ring_buffer;
struct bpf_link;
struct bpf_map;

/* The processes, and the data about them that is not read every time. */
struct kernel_processes {
    const struct process_record *records; /* mapped, as are the pids */
    uint64_t *wanted_pids;
    struct map known; /* pid → struct known_process */
    unsigned generation;
    size_t seen; /* in this generation */
    int root_fd;
    uint64_t page_bytes;
};

struct kernel_events {
    struct ring_buffer *ring;
    struct endings endings;
    lifecycle_fn on_event;
    void *context;
    uint64_t lost_reported;  /* lost events reported so far */
    struct map ending_calls; /* pid → struct ending_calls */
    struct process_peaks peaks;
};

/* Sampling and counting of system calls. */
struct kernel_calls_state {
    const struct thread_record *threads;  /* mapped */
    struct bpf_link *on_call, *on_return; /* NULL: not counting */
    uint32_t generation;
    uint64_t dropped; /* calls dropped for lack of memory in sonde */
};

struct kernel_probe {
    struct kernel *object;
    bool has[KERNEL_PART_COUNT];
    bool is_loaded_quickly;                  /* with an excerpt of the kernel's types */
    struct kernel_probe_error missing_parts; /* why parts are missing; "": none is */
    uint64_t ns_per_tick;
    struct kernel_processes processes;
    struct kernel_events events;
    struct kernel_calls_state calls;
};

/* Runs a program once. Returns its result or a negative errno. */
int kernel_run(int program_fd);

/* Sets the list of pids for the next program that uses one; at most PROCESS_CHUNK. */
void kernel_set_pids(struct kernel_probe *probe, const pid_t *pids, size_t count);

int kernel_processes_start(struct kernel_probe *probe, const char *proc_root);
void kernel_processes_stop(struct kernel_probe *probe);

/* Maps an array shared with the programs. Returns NULL and sets errno on failure. */
void *kernel_map_memory(const struct bpf_map *map, size_t item_bytes, size_t count, int protection);
void kernel_unmap_memory(const void *memory, size_t item_bytes, size_t count);

int kernel_calls_start(struct kernel_probe *probe);
void kernel_calls_stop(struct kernel_probe *probe);

int kernel_events_start(struct kernel_probe *probe);
void kernel_events_stop(struct kernel_probe *probe);
