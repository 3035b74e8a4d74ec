#include "sample/collector.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "config/paths.h"
#include "model/redact.h"
#include "probe/huge-pages.h"
#include "probe/system.h"

#define CGROUP_ROOT "/sys/fs/cgroup"
#define SYS_ROOT    "/sys"

struct collector {
    struct procfs *procfs;
    struct kernel_probe *kernel; /* owned by the caller; NULL: read through procfs */
    struct system_probe *system;
    struct sampler *sampler;
    struct readings readings;
    struct redaction redaction;
    struct registry *registry;
    struct huge_pages huge_pages;
    struct memory_bounds bounds;
};

static uint64_t ticks_of(const struct moment *moment)
{
    return moment->boot_ns / (NS_PER_SEC / (uint64_t)sysconf(_SC_CLK_TCK));
}

/* Whether a member of a run has not called exec, so that it may share memory with its parent. Any
 * process of the reading may be a member. */
static bool may_have_copies(const struct collector *collector)
{
    const struct readings *readings = &collector->readings;
    bool has_copies = false;

    if (!collector->registry || !registry_run_count(collector->registry))
        return false;
    for (size_t i = 0; i < readings->count && !has_copies; i++)
        has_copies = readings->items[i].is_forked && readings->items[i].rss_bytes > 0;
    return has_copies;
}

/* The counters are read after the processes, so these may have made more huge pages, never fewer,
 * than the processes had; a process that starts later has made none of them. */
static void read_bounds(struct collector *collector)
{
    struct moment now = moment_now();

    collector->bounds.huge_bytes = huge_pages_made(&collector->huge_pages);
    collector->bounds.at_ticks = ticks_of(&now);
}

static void update_bounds(struct collector *collector, bool is_full_tick)
{
    if (may_have_copies(collector))
        read_bounds(collector);
    sampler_set_bounds(collector->sampler, &collector->bounds, is_full_tick);
}

/* The command of sonde has started before, and may have made huge pages since. */
static void init_bounds(struct collector *collector, const uint64_t *huge_pages_before)
{
    collector->bounds.total_bytes = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    collector->bounds.fault_bytes = collector->huge_pages.fault_bytes;
    read_bounds(collector);
    if (huge_pages_before) {
        collector->bounds.huge_bytes = *huge_pages_before * collector->huge_pages.huge_bytes;
        collector->bounds.at_ticks -= (uint64_t)sysconf(_SC_CLK_TCK);
    }
    sampler_set_bounds(collector->sampler, &collector->bounds, true);
}

int collector_new(const struct collector_options *options, struct collector **ret)
{
    const char *proc_root = options->proc_root ? options->proc_root : PROC_ROOT;
    const char *cgroup_root = options->cgroup_root ? options->cgroup_root : CGROUP_ROOT;
    const struct sampler_options sampler_options = {.own_pid = getpid(),
                                                    .registry = options->registry};
    _cleanup_(collector_freep) struct collector *collector = calloc(1, sizeof(*collector));
    if (!collector)
        return -ENOMEM;

    collector->registry = options->registry;
    huge_pages_init(&collector->huge_pages, proc_root,
                    options->sys_root ? options->sys_root : SYS_ROOT);
    int r = procfs_new(proc_root, procfs_default_budget(), &collector->procfs);
    /* The pids in it would not be those of sonde's pid namespace. */
    if (r == 0 && !options->proc_root && !procfs_is_live(collector->procfs))
        r = -EXDEV;
    if (r == 0)
        r = system_probe_new(proc_root, cgroup_root, &collector->system);
    if (r == 0)
        r = sampler_new(&sampler_options, &collector->sampler);
    if (r < 0)
        return r;
    init_bounds(collector, options->huge_pages_before);
    collector->readings.redaction = &collector->redaction;
    collector_redact(collector, options->redact);
    *ret = TAKE_PTR(collector);
    return 0;
}

void collector_free(struct collector *collector)
{
    if (!collector)
        return;
    procfs_free(collector->procfs);
    system_probe_free(collector->system);
    sampler_free(collector->sampler);
    huge_pages_done(&collector->huge_pages);
    readings_done(&collector->readings);
    free(collector);
}

void collector_freep(struct collector **collector)
{
    collector_free(*collector);
}

void collector_use_kernel(struct collector *collector, struct kernel_probe *kernel)
{
    bool is_usable = kernel && kernel_probe_has(kernel, KERNEL_PART_PROCESSES);

    collector->kernel = is_usable ? kernel : NULL;
    if (is_usable) /* closes the files that procfs keeps open */
        procfs_read_pids(collector->procfs, NULL, 0, &collector->readings);
}

static int read_pids(struct collector *collector, const pid_t *pids, size_t count, bool are_all)
{
    struct readings *readings = &collector->readings;

    return collector->kernel
               ? kernel_probe_read_pids(collector->kernel, pids, count, are_all, readings)
               : procfs_read_pids(collector->procfs, pids, count, readings);
}

static int read_processes(struct collector *collector, const struct collect_request *request,
                          size_t *ret_total)
{
    struct readings *readings = &collector->readings;

    if (request->pids) {
        int r = read_pids(collector, request->pids, request->pid_count, true);
        *ret_total = readings->count;
        return r;
    }
    return collector->kernel ? kernel_probe_scan(collector->kernel, request->depth,
                                                 request->context, readings, ret_total)
                             : procfs_scan(collector->procfs, request->depth, request->context,
                                           readings, ret_total);
}

void collector_redact(struct collector *collector, const struct text_list *words)
{
    redaction_set(&collector->redaction, words);
}

int collector_read_pids(struct collector *collector, const pid_t *pids, size_t count,
                        const struct readings **ret)
{
    int r = read_pids(collector, pids, count, false);
    if (r < 0)
        return r;
    update_bounds(collector, false);
    *ret = &collector->readings;
    return 0;
}

int collector_scan(struct collector *collector, probe_depth_fn depth, void *context)
{
    const struct collect_request request = {.depth = depth, .context = context};
    size_t total;

    return read_processes(collector, &request, &total);
}

int collector_take(struct collector *collector, const struct collect_request *request,
                   struct snapshot **ret, struct moment *ret_moment)
{
    struct system_reading system;
    size_t total = 0;
    uint64_t started_ns = clock_mono_ns();

    int r = read_processes(collector, request, &total);
    if (r < 0)
        return r;
    system_probe_read(collector->system, started_ns, &system);
    update_bounds(collector, true);
    r = sampler_take(collector->sampler,
                     &(struct sampler_input){.readings = &collector->readings,
                                             .system = &system,
                                             .process_total = total},
                     ret);
    if (r < 0)
        return r;
    sampler_measure(collector->sampler, procfs_root_fd(collector->procfs));
    (*ret)->collect_ms = (double)(clock_mono_ns() - started_ns) / 1e6;
    *ret_moment = collector->readings.moment;
    return 0;
}

const char *collector_name(const struct collector *collector)
{
    return collector->kernel ? "bpf" : "procfs";
}

const char *collector_strerror(int error)
{
    switch (error) {
    case -EXDEV:
        return "/proc is not mounted, or shows another pid namespace; mount it (unshare has the "
               "option --mount-proc)";
    case -EMFILE: return "too many open files; raise the limit (ulimit -n)";
    default: return strerror(-error);
    }
}

struct sampler *collector_sampler(struct collector *collector)
{
    return collector->sampler;
}

int64_t collector_pids_limit(const struct collector *collector)
{
    return system_probe_pids_limit(collector->system);
}
