/* The arguments of nvidia-smi and parsers of its output, for systems without NVML. No I/O: the
 * caller runs the program.
 *
 * The output is CSV with ", " between columns; a comma without a blank is part of a value (a
 * decimal comma of some locales). The name, which may contain anything, is the last column.
 * "[N/A]",
 * "[Not Supported]", "[Unknown Error]" and any other text that is not a number is unknown. Lines
 * that do not begin with a number, and a last line without a newline, are ignored. */
#pragma once

#include <stddef.h>

#include "probe/gpu/gpu-reading.h"

#define NVIDIA_SMI_QUERY_GPUS                                                                      \
    "--query-gpu=index,utilization.gpu,memory.used,memory.total,temperature.gpu,clocks.gr,"        \
    "power.draw,name"
#define NVIDIA_SMI_QUERY_APPS "--query-compute-apps=pid,used_memory"
#define NVIDIA_SMI_FORMAT     "--format=csv,noheader,nounits"

/* Adds the devices to the reading, each index once. Returns 0 or -ENOMEM. */
int nvidia_smi_gpus_parse(const char *bytes, size_t length, struct gpu_reading *reading);

/* Adds the processes with memory on a device. Returns 0 or -ENOMEM. */
int nvidia_smi_apps_parse(const char *bytes, size_t length, struct gpu_reading *reading);
