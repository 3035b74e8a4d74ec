/* PID/io: bytes read from and written to storage. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct proc_io {
    int64_t read_bytes; /* INT_UNKNOWN if the line is missing */
    int64_t write_bytes;
};

/* Returns 0 or -EBADMSG. */
int proc_io_parse(const char *bytes, size_t length, struct proc_io *ret);
