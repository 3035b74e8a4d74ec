/* PID/status: what no cheaper file has: whose it is, who traces it, the high-water mark of RSS,
 * ignored signals. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct proc_status {
    int64_t uid;            /* real; INT_UNKNOWN if the line is missing */
    int64_t gid;            /* the same */
    bool has_one_user;      /* the real uid and gid are the effective and the saved ones, too */
    int64_t tgid;           /* the process that the thread belongs to; INT_UNKNOWN likewise */
    int64_t tracer_pid;     /* 0: none; INT_UNKNOWN if the line is missing */
    int64_t peak_rss_bytes; /* VmHWM; INT_UNKNOWN for kernel threads and zombies */
    bool ignores_sigchld;   /* its children are reaped by the kernel, their figures lost */
};

/* Lines may be missing or new: only lines that are there and malformed give -EBADMSG. A truncated
 * last line is passed over. */
int proc_status_parse(const char *bytes, size_t length, struct proc_status *ret);
