/* A worker does its work on request and prints the cost, so that several can take turns. For each
 * line of input, a number N: does the work N times and prints one line, the total CPU nanoseconds
 * and the number of processes that one repetition read. */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <time.h>

static inline uint64_t worker_cpu_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static inline int worker_serve(size_t (*work)(void *context), void *context)
{
    size_t processes = 0;
    int times;

    while (scanf("%d", &times) == 1) {
        uint64_t started_ns = worker_cpu_ns();
        for (int i = 0; i < times; i++)
            processes = work(context);
        printf("%llu %zu\n", (unsigned long long)(worker_cpu_ns() - started_ns), processes);
        fflush(stdout);
    }
    return 0;
}
