/* What a monitor is told to do, checked and with its defaults filled in. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "sonde/sonde.h"

struct monitor_options {
    uint64_t interval_ns;
    pid_t pid; /* 0: this process, whichever that is */
    unsigned flags;
    unsigned max_samples;
    unsigned gpu_index;
    bool has_gpu_source;
    struct sonde_gpu_source gpu_source;
};

/* `given` may be NULL. 0, -EINVAL with the option named, or -E2BIG: one is set that is not known.
 */
int options_read(const struct sonde_options *given, struct monitor_options *ret,
                 struct sonde_error *error);
