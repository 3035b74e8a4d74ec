/* Parsers of the kernel's tables about the whole machine; no I/O. All return 0 or -EBADMSG. Values
 * whose line is missing are INT_UNKNOWN or REAL_UNKNOWN. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "model/snapshot.h"

struct meminfo {
    int64_t total_bytes;
    int64_t available_bytes;
};
int meminfo_parse(const char *bytes, size_t length, struct meminfo *ret);

struct loadavg {
    double avg_1, avg_5, avg_15;
};
int loadavg_parse(const char *bytes, size_t length, struct loadavg *ret);

/* The first line of `stat`: ticks of all CPUs since boot. */
struct cpu_ticks {
    uint64_t busy; /* user, nice, system, irq, softirq (guest time is in user already) */
    uint64_t idle; /* idle, iowait */
    uint64_t stolen;
};
int cpu_ticks_parse(const char *bytes, size_t length, struct cpu_ticks *ret);

/* vmstat: the number of processes that the OOM killer has killed since boot, in any cgroup. */
int vmstat_parse_oom_kills(const char *bytes, size_t length, int64_t *ret);

/* vmstat: the number of huge pages that page faults and the kernel's own thread have made for
 * anonymous memory since boot; 0 for a kernel without them. */
int vmstat_parse_huge_pages(const char *bytes, size_t length, int64_t *ret);

/* pressure/cpu, pressure/memory, pressure/io. */
int psi_parse(const char *bytes, size_t length, struct psi_line *ret);
