/* PID/status, for values that no cheaper file has: owner, tracer, peak RSS, ignored signals. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct proc_status {
    int64_t uid;            /* real; INT_UNKNOWN if the line is missing */
    int64_t gid;            /* real; INT_UNKNOWN if the line is missing */
    bool has_one_user;      /* real, effective and saved ids are equal, for uid and gid */
    int64_t tgid;           /* the thread's process; INT_UNKNOWN if the line is missing */
    int64_t tracer_pid;     /* 0: none; INT_UNKNOWN if the line is missing */
    int64_t peak_rss_bytes; /* VmHWM; INT_UNKNOWN for kernel threads and zombies */
    int64_t shmem_bytes;    /* RssShmem, in the same way */
    bool ignores_sigchld;   /* the kernel reaps its children, and their figures are lost */
};

/* Returns 0, or -EBADMSG if one of these lines is malformed. Missing lines, unknown lines and a
 * truncated last line are no error. */
int proc_status_parse(const char *bytes, size_t length, struct proc_status *ret);
