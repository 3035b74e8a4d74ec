/* nvidia-smi, for NVIDIA's GPUs where NVML is not there: two short programs a question, run by the
 * loop's helpers, so that one that hangs, floods or dies does no harm. A question that fails is
 * answered with why, and asked again later and later. */
#pragma once

#include "loop/helper.h"
#include "probe/gpu/gpu-reading.h"

struct gpu_smi;

struct gpu_smi_options {
    struct helpers *helpers; /* not its own */
    int proc_fd;             /* not its own */
    /* The reading is the receiver's; NULL: the question has failed, and why. */
    void (*on_answer)(void *context, struct gpu_reading *reading, const char *reason);
    void *context;
};

/* How often it is asked at most: it costs as much CPU as everything else together. */
#define GPU_SMI_EVERY_NS (10 * NS_PER_SEC)
#define GPU_SMI_LIMIT_MS 5000

/* 0, -ENOENT (there is no such program) or another negative errno. */
int gpu_smi_new(const struct gpu_smi_options *options, struct gpu_smi **ret);
/* What runs is left to its helpers, which must be closed right after. */
void gpu_smi_free(struct gpu_smi *smi);
/* Ends what runs, which is then told as a failure. */
void gpu_smi_stop(struct gpu_smi *smi);

/* Begins a question, unless one is open or it is too early for the next. */
void gpu_smi_ask(struct gpu_smi *smi, uint64_t mono_ns);
