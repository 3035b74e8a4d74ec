/* Which limits apply, and how much room they leave.
 *
 * A limit applies to the whole subtree, so the walk goes from sonde's own cgroup up to the root of
 * the mount. In version 2 only memory.max counts, because memory.high only throttles.
 *
 * Room is limit − (usage − inactive file cache). The active file cache could be reclaimed as well,
 * but the job that uses it would then read it from storage repeatedly. Therefore it does not count
 * as available to the next job. */
#include "probe/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd-io.h"
#include "base/macros.h"
#include "probe/cgroup-files.h"
#include "probe/known.h"
#include "probe/lines.h"

/* Larger than any memory.stat; version 1's has about 60 lines. */
#define FILE_SIZE 8192

/* One cgroup: its directory relative to the mount point of the hierarchies. */
struct group {
    int root_fd;
    char path[CGROUP_PATH_SIZE + 16];
};

/* Accumulates the limits of all cgroups. */
struct findings {
    struct cgroup_limits limits;
    struct cgroup_bounds *bounds;
};

/* Whether the comma-separated list contains `word`; an empty list contains "". */
static bool list_has(struct line list, const char *word)
{
    size_t length = strlen(word);

    for (;;) {
        const char *comma = memchr(list.at, ',', (size_t)(list.end - list.at));
        const char *end = comma ? comma : list.end;
        if ((size_t)(end - list.at) == length && memcmp(list.at, word, length) == 0)
            return true;
        if (!comma)
            return false;
        list.at = comma + 1;
    }
}

static bool path_is_sound(struct line path)
{
    size_t length = (size_t)(path.end - path.at);

    if (length == 0 || length >= CGROUP_PATH_SIZE || *path.at != '/' ||
        memchr(path.at, '\0', length))
        return false;
    for (const char *at = path.at; at < path.end; at++)
        if (path.end - at >= 3 && memcmp(at, "/..", 3) == 0 && (at + 3 == path.end || at[3] == '/'))
            return false;
    return true;
}

/* `ID:CONTROLLER,CONTROLLER:PATH`; the path may hold colons. */
static int split_line(struct line line, struct line *ret_controllers, struct line *ret_path)
{
    const char *first = memchr(line.at, ':', (size_t)(line.end - line.at));
    if (!first)
        return -EBADMSG;
    const char *second = memchr(first + 1, ':', (size_t)(line.end - first - 1));
    if (!second)
        return -EBADMSG;

    *ret_controllers = (struct line){.at = first + 1, .end = second};
    *ret_path = (struct line){.at = second + 1, .end = line.end};
    return 0;
}

int cgroup_paths_parse(const char *bytes, size_t length, struct cgroup_paths *ret)
{
    char *const into[] = {ret->unified, ret->memory, ret->cpu, ret->pids};
    static const char *const names[] = {"", "memory", "cpu", "pids"};
    struct line found[ARRAY_SIZE(names)] = {0};
    const char *at = bytes;
    struct line line;

    while (lines_next(&at, bytes + length, &line)) {
        struct line controllers, path;
        if (split_line(line, &controllers, &path) < 0)
            return -EBADMSG;
        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
            if (!list_has(controllers, names[i]))
                continue;
            if (!path_is_sound(path))
                return -EBADMSG;
            found[i] = path;
        }
    }
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        size_t path_length = (size_t)(found[i].end - found[i].at);
        if (path_length)
            memcpy(into[i], found[i].at, path_length);
        into[i][path_length] = '\0';
    }
    return 0;
}

static int open_file(const struct group *group, const char *name)
{
    char path[sizeof(group->path) + 64];

    snprintf(path, sizeof(path), "%s/%s", group->path, name);
    return openat(group->root_fd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

/* INT_UNKNOWN also if the file is missing, unreadable or malformed. */
static int64_t read_number_fd(int fd)
{
    char bytes[FILE_SIZE];
    int64_t number = INT_UNKNOWN;

    ssize_t length = fd < 0 ? 0 : fd_read_start(fd, bytes, sizeof(bytes));
    if (length > 0)
        cgroup_number_parse(bytes, (size_t)length, &number);
    return number;
}

static int64_t read_number(const struct group *group, const char *name)
{
    _cleanup_close_ int fd = open_file(group, name);
    return read_number_fd(fd);
}

static int64_t read_inactive_file(int fd)
{
    char bytes[FILE_SIZE];
    int64_t inactive = INT_UNKNOWN;

    ssize_t length = fd < 0 ? 0 : fd_read_start(fd, bytes, sizeof(bytes));
    if (length > 0)
        cgroup_memory_stat_parse(bytes, (size_t)length, &inactive);
    return int_is_known(inactive) ? inactive : 0;
}

static int64_t read_room(const struct cgroup_bound *bound)
{
    int64_t usage = read_number_fd(bound->usage_fd);
    if (!int_is_known(usage))
        return INT_UNKNOWN;
    /* The statistics lag behind the usage and may exceed it. */
    int64_t used = usage - MIN(read_inactive_file(bound->stat_fd), usage);
    return MAX(bound->limit_bytes - used, (int64_t)0);
}

static void bound_done(struct cgroup_bound *bound)
{
    close_fd(bound->usage_fd);
    close_fd(bound->stat_fd);
}

static void apply_memory(const struct group *group, const char *limit_name, const char *usage_name,
                         struct findings *findings)
{
    struct cgroup_limits *limits = &findings->limits;
    int64_t limit = read_number(group, limit_name);
    if (!int_is_known(limit))
        return;

    struct cgroup_bound bound = {.limit_bytes = limit,
                                 .usage_fd = open_file(group, usage_name),
                                 .stat_fd = open_file(group, "memory.stat")};
    limits->memory_limit_bytes = known_min(limits->memory_limit_bytes, limit);
    limits->memory_available_bytes = known_min(limits->memory_available_bytes, read_room(&bound));
    if (VEC_PUSH(findings->bounds, bound) < 0)
        bound_done(&bound);
}

static void apply_cpu_count(double cpu_count, struct findings *findings)
{
    struct cgroup_limits *limits = &findings->limits;

    limits->cpu_count = fmin(limits->cpu_count, cpu_count); /* fmin ignores NaN, which is unknown */
}

static void apply_pids(const struct group *group, struct findings *findings)
{
    struct cgroup_limits *limits = &findings->limits;

    limits->pids_limit = known_min(limits->pids_limit, read_number(group, "pids.max"));
}

static void apply_unified(const struct group *group, struct findings *findings)
{
    char bytes[FILE_SIZE];
    double cpu_count = REAL_UNKNOWN;

    apply_memory(group, "memory.max", "memory.current", findings);
    apply_pids(group, findings);
    _cleanup_close_ int fd = open_file(group, "cpu.max");
    ssize_t length = fd < 0 ? 0 : fd_read_start(fd, bytes, sizeof(bytes));
    if (length > 0)
        cgroup_cpu_max_parse(bytes, (size_t)length, &cpu_count);
    apply_cpu_count(cpu_count, findings);
}

static void apply_v1_memory(const struct group *group, struct findings *findings)
{
    apply_memory(group, "memory.limit_in_bytes", "memory.usage_in_bytes", findings);
}

static void apply_v1_cpu(const struct group *group, struct findings *findings)
{
    int64_t quota_us = read_number(group, "cpu.cfs_quota_us");
    if (quota_us <= 0)
        return; /* INT_UNKNOWN is negative */

    int64_t period_us = read_number(group, "cpu.cfs_period_us");
    if (period_us > 0)
        apply_cpu_count((double)quota_us / (double)period_us, findings);
}

/* Calls `apply` for the cgroup `path` of the hierarchy mounted at `mount` and for all its
 * ancestors. In a container without a cgroup namespace the path is the host's and does not exist:
 * the root of the mount is then the container's own cgroup. */
static void walk_up(int root_fd, const char *mount, const char *path,
                    void (*apply)(const struct group *group, struct findings *findings),
                    struct findings *findings)
{
    struct group group = {.root_fd = root_fd};
    size_t mount_length = strlen(mount);

    if (!*path)
        return;
    snprintf(group.path, sizeof(group.path), "%s%s", mount, strcmp(path, "/") == 0 ? "" : path);
    if (faccessat(root_fd, group.path, F_OK, 0) < 0)
        group.path[mount_length] = '\0';
    for (;;) {
        apply(&group, findings);
        char *slash = strrchr(group.path, '/');
        if (!slash || (size_t)(slash - group.path) < mount_length)
            return;
        *slash = '\0';
    }
}

void cgroup_limits_read(int cgroup_root_fd, const struct cgroup_paths *paths,
                        struct cgroup_bounds *bounds, struct cgroup_limits *ret)
{
    bool root_is_unified = faccessat(cgroup_root_fd, "cgroup.controllers", F_OK, 0) == 0;
    struct findings findings = {.bounds = bounds,
                                .limits = {.memory_limit_bytes = INT_UNKNOWN,
                                           .memory_available_bytes = INT_UNKNOWN,
                                           .cpu_count = REAL_UNKNOWN,
                                           .pids_limit = INT_UNKNOWN}};

    cgroup_bounds_done(bounds);
    walk_up(cgroup_root_fd, root_is_unified ? "." : "unified", paths->unified, apply_unified,
            &findings);
    walk_up(cgroup_root_fd, "memory", paths->memory, apply_v1_memory, &findings);
    walk_up(cgroup_root_fd, "cpu", paths->cpu, apply_v1_cpu, &findings);
    walk_up(cgroup_root_fd, "pids", paths->pids, apply_pids, &findings);
    *ret = findings.limits;
}

int64_t cgroup_bounds_read(const struct cgroup_bounds *bounds)
{
    int64_t room = INT_UNKNOWN;

    for (size_t i = 0; i < bounds->count; i++)
        room = known_min(room, read_room(&bounds->items[i]));
    return room;
}

void cgroup_bounds_done(struct cgroup_bounds *bounds)
{
    for (size_t i = 0; i < bounds->count; i++)
        bound_done(&bounds->items[i]);
    VEC_DONE(bounds);
}
