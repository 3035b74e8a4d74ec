/* The CPU time of a process and its split into user and system time.
 *
 * The scheduler counts the total exactly. The kernel of the machines that sonde runs on counts the
 * split in clock ticks, and scales it to the total (cputime_adjust in kernel/sched/cputime.c). */
#pragma once

#include "base/macros.h"
#include "probe/bpf/kernel-records.h"

struct kernel_times {
    u64 cpu_ns;
    u64 user_ns, system_ns;                   /* in ticks */
    u64 reported_user_ns, reported_system_ns; /* the split that the kernel last reported */
};

/* Returns the times with the split that the kernel would report, and no reported values. If one of
 * the two has no ticks, the other gets all. A value is never smaller than the one reported last. */
static inline struct kernel_times kernel_split_times(const struct kernel_times *times)
{
    u64 total = times->cpu_ns, user = times->reported_user_ns, system = times->reported_system_ns;

    if (user + system < total) {
        u64 ticks = times->user_ns + times->system_ns;
        u64 scaled = times->user_ns     ? (u64)((unsigned __int128)times->system_ns * total / ticks)
                     : times->system_ns ? total
                                        : 0;
        system = MAX(scaled, system);
        user = MAX(total - MIN(system, total), user);
        system = total - MIN(user, total);
    }
    return (struct kernel_times){.cpu_ns = total, .user_ns = user, .system_ns = system};
}
