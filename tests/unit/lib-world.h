/* Shared by the tests of libsonde: waiting for a condition, allocating and freeing memory. */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "sonde/sonde.h"

#define MB ((size_t)1 << 20)

static inline void nap_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

/* Waits until the condition holds; meson's timeout ends the test if it never does. */
#define AWAIT(condition)                                                                           \
    do {                                                                                           \
        while (!(condition))                                                                       \
            nap_ms(1);                                                                             \
    } while (0)

/* Memory that is in RAM. The kernel fills it: for each byte that the program writes,
 * ThreadSanitizer would take some more. */
static inline char *take_memory(size_t bytes)
{
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    assert(memory != MAP_FAILED);
    return memory;
}

static inline void hold_memory(size_t bytes, long ms)
{
    char *memory = take_memory(bytes);
    nap_ms(ms);
    munmap(memory, bytes);
}

static inline struct sonde_monitor *new_monitor(const struct sonde_options *options)
{
    struct sonde_monitor *monitor = NULL;
    int r = sonde_monitor_new(options, &monitor, NULL);
    assert(r == 0);
    return monitor;
}

static inline struct sonde_summary summary_of(struct sonde_monitor *monitor)
{
    struct sonde_summary summary;
    sonde_monitor_summary(monitor, &summary);
    return summary;
}
