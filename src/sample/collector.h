/* Facts to snapshot in one call: the probes and the sampler together, for whoever wants snapshots:
 * the engine at its ticks, `sonde ps` twice, libsonde in its thread. */
#pragma once

#include "probe/bpf/kernel-probe.h"
#include "probe/procfs.h"
#include "sample/sampler.h"

struct collector;

struct collector_options {
    const char *proc_root;     /* NULL: /proc */
    const char *cgroup_root;   /* NULL: /sys/fs/cgroup */
    struct registry *registry; /* not the collector's; NULL: no jobs */
};

/* 0 or a negative errno; -EXDEV if /proc is not that of sonde's own pid namespace. */
int collector_new(const struct collector_options *options, struct collector **ret);
void collector_free(struct collector *collector);
void collector_freep(struct collector **collector);

/* Reads processes through the kernel's own programs from now on; not the collector's. NULL: through
 * /proc again. */
void collector_use_kernel(struct collector *collector, struct kernel_probe *kernel);

/* Reads these, in their order. Valid until the next reading. 0 or a negative errno. */
int collector_look_at(struct collector *collector, const pid_t *pids, size_t count,
                      const struct readings **ret);

/* Shows `depth` every process, as collector_take() does, for its own use: no snapshot comes of it.
 * 0 or a negative errno. */
int collector_look_for(struct collector *collector, probe_depth_fn depth, void *context);

/* Which processes are read: all for which `depth` says so (NULL: all), or just `pids`, deeply. */
struct collect_request {
    probe_depth_fn depth;
    void *context;
    const pid_t *pids; /* NULL: look for them */
    size_t pid_count;
};

/* 0 or a negative errno. `ret_moment` is when it was taken. */
int collector_take(struct collector *collector, const struct collect_request *request,
                   struct snapshot **ret, struct moment *ret_moment);

/* What processes are read with: "bpf" or "procfs". */
const char *collector_name(const struct collector *collector);

/* What went wrong, in words that name the cause and, where there is one, the fix. */
const char *collector_strerror(int error);

struct sampler *collector_sampler(struct collector *collector);

/* How many processes there may be: the smaller of the kernel's and of the cgroup limits that apply
 * to sonde. INT_UNKNOWN: not known. */
int64_t collector_pids_limit(const struct collector *collector);
