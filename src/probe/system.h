/* The machine as a whole at one instant: memory, load, CPU, pressure; cgroup limits applied. */
#pragma once

#include "model/snapshot.h"
#include "probe/cgroup.h"
#include "probe/sys-files.h"

struct system_probe;

struct system_reading {
    int64_t memory_total_bytes; /* the smaller of the machine's and of the cgroup limits */
    int64_t memory_available_bytes;
    struct loadavg load;
    struct cpu_ticks cpu; /* cumulative: two readings make a percentage */
    bool cpu_known;
    double cpu_online; /* cores that there are */
    double cpu_count;  /* the part of them that may be used */
    struct psi psi;
};

/* `proc_root` and `cgroup_root` are the directories mounted as /proc and /sys/fs/cgroup; either may
 * be a fixture. 0, or a negative errno if `proc_root` cannot be opened; a missing `cgroup_root`
 * means no limits. */
int system_probe_new(const char *proc_root, const char *cgroup_root, struct system_probe **ret);
void system_probe_free(struct system_probe *probe);
void system_probe_freep(struct system_probe **probe);

/* Files stay open between readings. What cannot be read is unknown; this never fails. Which cgroup
 * sonde is in (a process can be moved) and the limits there are looked up again when `mono_ns`, the
 * time now, is 5 s on; how much of a limit is used, at each reading. */
void system_probe_read(struct system_probe *probe, uint64_t mono_ns, struct system_reading *ret);

/* How many processes there may be, as of the last lookup: the smaller of the kernel's limits and of
 * the cgroups'. INT_UNKNOWN: not known. */
int64_t system_probe_pids_limit(struct system_probe *probe);
