/* Readings of the whole machine: memory, load, CPU, pressure, with cgroup limits applied. */
#pragma once

#include "model/snapshot.h"
#include "probe/cgroup.h"
#include "probe/sys-files.h"

struct system_probe;

struct system_reading {
    int64_t memory_total_bytes; /* the smaller of the machine's and of the cgroup limits */
    int64_t memory_available_bytes;
    struct loadavg load;
    struct cpu_ticks cpu; /* cumulative: a percentage needs two readings */
    bool cpu_known;
    double cpu_online; /* CPUs that are online */
    double cpu_count;  /* CPUs that the cgroup limits permit; may be a fraction */
    struct psi psi;
};

/* `proc_root` and `cgroup_root` are the directories mounted as /proc and /sys/fs/cgroup; either may
 * be a fixture. Returns 0, -ENOMEM, or a negative errno if `proc_root` cannot be opened. A missing
 * `cgroup_root` means no limits. */
int system_probe_new(const char *proc_root, const char *cgroup_root, struct system_probe **ret);
void system_probe_free(struct system_probe *probe);
void system_probe_freep(struct system_probe **probe);

/* Reads the machine. Never fails: values that cannot be read are unknown. Files stay open between
 * readings. `mono_ns` is the present time: after 5 s, sonde's cgroup (a process can be moved) and
 * its limits are looked up again. The usage below a limit is read every time. */
void system_probe_read(struct system_probe *probe, uint64_t mono_ns, struct system_reading *ret);

/* Returns the maximum number of processes, as of the last lookup: the smallest of the kernel's and
 * the cgroups' limits, or INT_UNKNOWN. */
int64_t system_probe_pids_limit(struct system_probe *probe);
