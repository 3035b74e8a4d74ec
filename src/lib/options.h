/* The options of a monitor, checked and with defaults. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "sonde/sonde.h"

struct monitor_options {
    uint64_t interval_ns;
    pid_t pid; /* 0: this process; a child after a fork monitors itself */
    unsigned flags;
    unsigned max_samples;
    unsigned gpu_index;
    bool has_gpu_source;
    struct sonde_gpu_source gpu_source;
};

/* Checks the options of a caller (NULL: none) and fills in the defaults. Returns 0, -EINVAL (the
 * error names the option), or -E2BIG (an option is set that this version does not know). */
int options_read(const struct sonde_options *given, struct monitor_options *ret,
                 struct sonde_error *error);
