/* PID/smaps_rollup: memory by its pages, each divided by the number of processes that map it. The
 * kernel walks through all page tables for it, and the process waits when it changes its memory. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct proc_pss {
    int64_t total_bytes;
    int64_t anon_bytes; /* the part that is neither files nor shared memory */
};

/* Returns 0, or -EBADMSG, also for a kernel before Linux 5.4, which does not show the parts. */
int proc_pss_parse(const char *bytes, size_t length, struct proc_pss *ret);
