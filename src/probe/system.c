#include "probe/system.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd-io.h"
#include "probe/cgroup-files.h"
#include "probe/known.h"
#include "probe/lines.h"

/* The largest part to read is the CPU lines of `stat`, 80 bytes each on a machine that has been up
 * for months: enough for 3,000 CPUs. Pages that no file fills are never touched. */
#define BUFFER_SIZE (256 * 1024)

/* Limits rarely change, and the lookup takes three quarters of a reading's time. */
#define LIMITS_LIFE_NS (5 * NS_PER_SEC)

enum kept_file { MEMINFO, LOADAVG, STAT, PSI_CPU, PSI_MEMORY, PSI_IO, KEPT_FILES };

static const char *const kept_names[KEPT_FILES] = {
    [MEMINFO] = "meminfo",
    [LOADAVG] = "loadavg",
    [STAT] = "stat",
    [PSI_CPU] = "pressure/cpu",
    [PSI_MEMORY] = "pressure/memory",
    [PSI_IO] = "pressure/io",
};

struct system_probe {
    int proc_fd;
    int cgroup_fd; /* -1: no limits */
    int kept_fds[KEPT_FILES];
    struct cgroup_paths paths;

    /* as of the last lookup */
    bool has_limits;
    uint64_t limits_mono_ns;
    struct cgroup_limits limits;
    struct cgroup_bounds bounds;
    int64_t pids_limit;

    char buffer[BUFFER_SIZE];
};

int system_probe_new(const char *proc_root, const char *cgroup_root, struct system_probe **ret)
{
    _cleanup_(system_probe_freep) struct system_probe *probe = malloc(sizeof(*probe));
    if (!probe)
        return -ENOMEM;

    for (size_t i = 0; i < KEPT_FILES; i++)
        probe->kept_fds[i] = -1;
    probe->has_limits = false;
    probe->bounds = (struct cgroup_bounds){0};
    probe->cgroup_fd = open(cgroup_root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    probe->proc_fd = open(proc_root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (probe->proc_fd < 0)
        return -errno;
    *ret = TAKE_PTR(probe);
    return 0;
}

void system_probe_free(struct system_probe *probe)
{
    if (!probe)
        return;
    for (size_t i = 0; i < KEPT_FILES; i++)
        close_fd(probe->kept_fds[i]);
    cgroup_bounds_done(&probe->bounds);
    close_fd(probe->cgroup_fd);
    close_fd(probe->proc_fd);
    free(probe);
}

void system_probe_freep(struct system_probe **probe)
{
    system_probe_free(*probe);
}

/* Returns the file's length in the buffer, or 0 if it cannot be read; all values of an empty file
 * are unknown. */
static size_t read_kept(struct system_probe *probe, enum kept_file file)
{
    int *fd = &probe->kept_fds[file];

    if (*fd < 0)
        *fd = openat(probe->proc_fd, kept_names[file], O_RDONLY | O_CLOEXEC);
    if (*fd < 0)
        return 0;
    ssize_t length = fd_read_start(*fd, probe->buffer, sizeof(probe->buffer));
    return length < 0 ? 0 : (size_t)length;
}

/* Each online CPU has a line after the one for all CPUs. */
static double count_cpus(const char *bytes, size_t length)
{
    const char *at = bytes;
    struct line line;
    unsigned lines = 0;

    while (lines_next(&at, bytes + length, &line) && line_skip_key(&line, "cpu"))
        lines++;
    return lines > 1 ? lines - 1 : REAL_UNKNOWN;
}

static void read_psi(struct system_probe *probe, enum kept_file file, struct psi_line *ret)
{
    size_t length = read_kept(probe, file);

    *ret = (struct psi_line){.some_avg10 = REAL_UNKNOWN, .full_avg10 = REAL_UNKNOWN};
    psi_parse(probe->buffer, length, ret);
}

static void read_host(struct system_probe *probe, struct system_reading *ret)
{
    struct meminfo meminfo = {.total_bytes = INT_UNKNOWN, .available_bytes = INT_UNKNOWN};

    size_t length = read_kept(probe, MEMINFO);
    meminfo_parse(probe->buffer, length, &meminfo);
    ret->memory_total_bytes = meminfo.total_bytes;
    ret->memory_available_bytes = meminfo.available_bytes;

    length = read_kept(probe, LOADAVG);
    ret->load = (struct loadavg){REAL_UNKNOWN, REAL_UNKNOWN, REAL_UNKNOWN};
    loadavg_parse(probe->buffer, length, &ret->load);

    length = read_kept(probe, STAT);
    ret->cpu_known = cpu_ticks_parse(probe->buffer, length, &ret->cpu) == 0;
    ret->cpu_online = ret->cpu_count = count_cpus(probe->buffer, length);

    read_psi(probe, PSI_CPU, &ret->psi.cpu);
    read_psi(probe, PSI_MEMORY, &ret->psi.memory);
    read_psi(probe, PSI_IO, &ret->psi.io);
}

/* ---- limits ---- */

static void find_cgroup_limits(struct system_probe *probe)
{
    probe->limits = (struct cgroup_limits){.memory_limit_bytes = INT_UNKNOWN,
                                           .memory_available_bytes = INT_UNKNOWN,
                                           .cpu_count = REAL_UNKNOWN,
                                           .pids_limit = INT_UNKNOWN};
    cgroup_bounds_done(&probe->bounds);
    if (probe->cgroup_fd < 0)
        return;
    ssize_t length =
        fd_read_file(probe->proc_fd, "self/cgroup", probe->buffer, sizeof(probe->buffer));
    if (length < 0 || cgroup_paths_parse(probe->buffer, (size_t)length, &probe->paths) < 0)
        return;
    cgroup_limits_read(probe->cgroup_fd, &probe->paths, &probe->bounds, &probe->limits);
}

/* Reads a numeric kernel setting; INT_UNKNOWN if it cannot be read. */
static int64_t read_setting(struct system_probe *probe, const char *name)
{
    int64_t number = INT_UNKNOWN;

    ssize_t length = fd_read_file(probe->proc_fd, name, probe->buffer, sizeof(probe->buffer));
    if (length > 0)
        cgroup_number_parse(probe->buffer, (size_t)length, &number);
    return number;
}

static void find_limits(struct system_probe *probe, uint64_t mono_ns)
{
    find_cgroup_limits(probe);
    int64_t kernel_limit = known_min(read_setting(probe, "sys/kernel/pid_max"),
                                     read_setting(probe, "sys/kernel/threads-max"));
    probe->pids_limit = known_min(kernel_limit, probe->limits.pids_limit);
    probe->limits_mono_ns = mono_ns;
    probe->has_limits = true;
}

static void apply_limits(struct system_probe *probe, uint64_t mono_ns,
                         struct system_reading *reading)
{
    struct cgroup_limits *limits = &probe->limits;

    if (!probe->has_limits || mono_ns - probe->limits_mono_ns >= LIMITS_LIFE_NS)
        find_limits(probe, mono_ns);
    else
        limits->memory_available_bytes = cgroup_bounds_read(&probe->bounds);

    reading->memory_total_bytes =
        known_min(reading->memory_total_bytes, limits->memory_limit_bytes);
    reading->memory_available_bytes =
        known_min(reading->memory_available_bytes, limits->memory_available_bytes);
    /* If the usage below a limit cannot be read, the limit is still an upper bound. */
    if (int_is_known(reading->memory_available_bytes))
        reading->memory_available_bytes =
            known_min(reading->memory_available_bytes, reading->memory_total_bytes);
    reading->cpu_count = fmin(reading->cpu_count, limits->cpu_count);
}

int64_t system_probe_pids_limit(struct system_probe *probe)
{
    if (!probe->has_limits)
        find_limits(probe, 0);
    return probe->pids_limit;
}

void system_probe_read(struct system_probe *probe, uint64_t mono_ns, struct system_reading *ret)
{
    *ret = (struct system_reading){0};
    read_host(probe, ret);
    apply_limits(probe, mono_ns, ret);
}
