/* PID/statm: memory in pages, exact. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct proc_statm {
    uint64_t size_pages;
    uint64_t resident_pages;
    uint64_t shared_pages; /* the resident part that is file-backed or shared memory */
};

/* Returns 0 or -EBADMSG. */
int proc_statm_parse(const char *bytes, size_t length, struct proc_statm *ret);
