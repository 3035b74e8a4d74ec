/* What nvidia-smi answers, for drivers whose library is not there: the questions to ask, and a
 * parser for each of the answers. No I/O: who asks is above.
 *
 * The answers are lines of CSV whose columns stand apart by a comma and a blank; a comma without
 * one is part of a value (a number of some locales). The name, which may hold anything, is the last
 * column. "[N/A]", "[Not Supported]", "[Unknown Error]" and whatever else is no number is unknown;
 * a line that does not begin with a number is passed over; a last line without its end was cut. */
#pragma once

#include <stddef.h>

#include "probe/gpu/gpu-reading.h"

#define NVIDIA_SMI_QUERY_GPUS                                                                      \
    "--query-gpu=index,utilization.gpu,memory.used,memory.total,temperature.gpu,clocks.gr,"        \
    "power.draw,name"
#define NVIDIA_SMI_QUERY_APPS "--query-compute-apps=pid,used_memory"
#define NVIDIA_SMI_FORMAT     "--format=csv,noheader,nounits"

/* Devices, added to the reading; one that is named twice counts once. 0 or -ENOMEM. */
int nvidia_smi_gpus_parse(const char *bytes, size_t length, struct gpu_reading *reading);

/* Processes with memory on a device, the same. */
int nvidia_smi_apps_parse(const char *bytes, size_t length, struct gpu_reading *reading);
