/* How much memory a page fault can add: which sizes of transparent huge pages the kernel permits,
 * and how many of the largest size it has made. These are rare, so they are counted for the whole
 * machine instead of being assumed for every fault. */
#pragma once

#include <stdint.h>

struct huge_pages {
    int vmstat_fd;        /* -1: none */
    uint64_t huge_bytes;  /* the largest size; 0: this kernel has none */
    uint64_t fault_bytes; /* the most that a fault adds, except for pages of the largest size */
};

/* Reads the settings of the system at `sys_root` (/sys). If the settings or the counters cannot be
 * read, every fault may add a page of the largest size. */
void huge_pages_init(struct huge_pages *pages, const char *proc_root, const char *sys_root);
void huge_pages_done(struct huge_pages *pages);

/* Returns the bytes of all pages of the largest size that were made since boot. */
uint64_t huge_pages_made(const struct huge_pages *pages);

/* Returns the number of these pages, for a time before there is a struct huge_pages. */
uint64_t huge_pages_count(const char *proc_root);
