/* nvidia-smi, for NVIDIA GPUs without NVML: two short programs per query, run as helpers of the
 * loop, so that a hang, a flood of output or a crash affects nothing else. A failed query is
 * reported with its reason and retried at growing intervals. */
#pragma once

#include "loop/helper.h"
#include "probe/gpu/gpu-reading.h"

struct gpu_smi;

struct gpu_smi_options {
    struct helpers *helpers; /* borrowed */
    int proc_fd;             /* borrowed */
    /* The receiver owns the reading; NULL: the query failed, with the reason. */
    void (*on_answer)(void *context, struct gpu_reading *reading, const char *reason);
    void *context;
};

/* The shortest time between two queries: one costs as much CPU as everything else together. */
#define GPU_SMI_EVERY_NS (10 * NS_PER_SEC)
#define GPU_SMI_LIMIT_MS 5000

/* Returns 0, -ENOENT (nvidia-smi is not installed) or another negative errno. */
int gpu_smi_new(const struct gpu_smi_options *options, struct gpu_smi **ret);
/* Frees it. A running nvidia-smi is left to the helpers, which must be closed right after. */
void gpu_smi_free(struct gpu_smi *smi);
/* Stops a running nvidia-smi; its query is then reported as failed. */
void gpu_smi_stop(struct gpu_smi *smi);

/* Starts a query, unless one is running or it is too early for the next. */
void gpu_smi_query(struct gpu_smi *smi, uint64_t mono_ns);
