/* PID/limits: the soft limit of open files. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Returns 0 or -EBADMSG (no such line, or malformed). "unlimited" is INT64_MAX. */
int proc_limits_parse_fds(const char *bytes, size_t length, int64_t *ret_fd_limit);
