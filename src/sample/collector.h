/* Takes a snapshot in one call: the probes and the sampler together. Used by the engine at every
 * tick and by `sonde ps`. */
#pragma once

#include "probe/bpf/kernel-probe.h"
#include "probe/procfs.h"
#include "sample/sampler.h"

struct collector;

struct collector_options {
    const char *proc_root;          /* NULL: /proc */
    const char *cgroup_root;        /* NULL: /sys/fs/cgroup */
    const char *sys_root;           /* NULL: /sys */
    struct registry *registry;      /* owned by the caller; NULL: no jobs */
    const struct text_list *redact; /* see collector_redact() */
    /* huge_pages_count() before sonde started its command; NULL: it started none */
    const uint64_t *huge_pages_before;
};

/* Returns 0 or a negative errno; -EXDEV if /proc is not that of sonde's own pid namespace. */
int collector_new(const struct collector_options *options, struct collector **ret);
void collector_free(struct collector *collector);
void collector_freep(struct collector **collector);

/* Switches to the kernel collector, which the caller owns, or back to /proc (NULL). A kernel
 * collector that cannot read processes is not used. */
void collector_use_kernel(struct collector *collector, struct kernel_probe *kernel);

/* Sets the words of redaction (model/redact.h; NULL: none), which must outlive the collector or the
 * next call. Other words redact the command lines of living processes anew. */
void collector_redact(struct collector *collector, const struct text_list *words);

/* Reads these processes, in their order, and makes no snapshot. *ret is valid until the next
 * reading. Returns 0 or a negative errno. */
int collector_read_pids(struct collector *collector, const pid_t *pids, size_t count,
                        const struct readings **ret);

/* Scans all processes and calls `depth` for each, like collector_take(), but makes no snapshot.
 * Returns 0 or a negative errno. */
int collector_scan(struct collector *collector, probe_depth_fn depth, void *context);

/* The processes to read: only `pids`, at depth PROBE_EXTRAS, or (`pids` is NULL) every process, at
 * the depth that `depth` returns for it (NULL: all). */
struct collect_request {
    probe_depth_fn depth;
    void *context;
    const pid_t *pids;
    size_t pid_count;
};

/* Takes a snapshot, which the caller frees. *ret_moment is the time of its readings. Returns 0 or a
 * negative errno. */
int collector_take(struct collector *collector, const struct collect_request *request,
                   struct snapshot **ret, struct moment *ret_moment);

/* Returns the collector in use: "bpf" or "procfs". */
const char *collector_name(const struct collector *collector);

/* Returns a message for a collector's error, with the fix if there is one. */
const char *collector_strerror(int error);

/* Returns the sampler, which the collector owns. */
struct sampler *collector_sampler(struct collector *collector);

/* Returns the maximum number of processes: the smallest of the kernel's limits and of the cgroup
 * limits that apply to sonde; or INT_UNKNOWN. */
int64_t collector_pids_limit(const struct collector *collector);
