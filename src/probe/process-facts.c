#include "probe/process-facts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fd-io.h"
#include "base/macros.h"
#include "base/map.h"
#include "base/utf8.h"
#include "base/vec.h"
#include "probe/cgroup.h"
#include "probe/proc-children.h"
#include "probe/proc-cmdline.h"
#include "probe/proc-environ.h"
#include "probe/proc-file.h"
#include "probe/proc-status.h"

#define DELETED " (deleted)"

/* More descendants than one job can have; a list of children is read up to the size of that many
 * pids. */
#define DESCENDANTS_MAX    (64 * 1024)
#define CHILDREN_MAX_BYTES (512 * 1024)

/* ---- facts ---- */

struct facts_reader {
    int dir_fd; /* of the process: reads below it fail if the pid belongs to another process */
    struct arena *arena;
    struct cgroup_paths paths;
    char bytes[FACT_MAX_BYTES + 4]; /* a NUL, and the rest of a character cut at the limit */
};

static void facts_reader_freep(struct facts_reader **reader)
{
    if (*reader)
        close_fd((*reader)->dir_fd);
    free(*reader);
}

/* Returns the length, 0 if the file cannot be read, or -ESRCH. */
static ssize_t read_file(struct facts_reader *reader, const char *name)
{
    ssize_t length = fd_read_file(reader->dir_fd, name, reader->bytes, sizeof(reader->bytes));

    return length < 0 && length != -ESRCH ? 0 : length;
}

static int read_command(struct facts_reader *reader, struct process_facts *facts)
{
    ssize_t length = read_file(reader, "cmdline");
    if (length <= 0)
        return (int)length;

    size_t capacity = MIN(3 * (size_t)length, (size_t)FACT_MAX_BYTES) + 1;
    char *command = arena_alloc(reader->arena, capacity);
    if (!command)
        return -ENOMEM;
    if (proc_cmdline_parse(reader->bytes, (size_t)length, command, capacity) > 0)
        facts->command = command;
    return 0;
}

/* Returns the length without the kernel's mark for a deleted directory. An existing directory may
 * have the mark in its name. */
static size_t strip_deleted_mark(const struct facts_reader *reader, const char *path, size_t length)
{
    size_t mark = sizeof(DELETED) - 1;
    struct stat st;

    if (length <= mark || memcmp(path + length - mark, DELETED, mark) != 0)
        return length;
    bool is_there = fstatat(reader->dir_fd, "cwd", &st, 0) == 0 && st.st_nlink > 0;
    return is_there ? length : length - mark;
}

static int read_cwd(struct facts_reader *reader, struct process_facts *facts)
{
    char path[PATH_MAX];

    ssize_t length = readlinkat(reader->dir_fd, "cwd", path, sizeof(path));
    if (length <= 0 || (size_t)length == sizeof(path) || *path != '/')
        return length < 0 && errno == ESRCH ? -ESRCH : 0;
    facts->cwd = utf8_clean_copy_bytes(reader->arena, path,
                                       strip_deleted_mark(reader, path, (size_t)length));
    return facts->cwd ? 0 : -ENOMEM;
}

/* Prefers a path below a root: in the unified hierarchy every process is at least at the root, even
 * if the system does not use that hierarchy. */
static const char *choose_path(const struct cgroup_paths *paths)
{
    const char *const all[] = {paths->unified, paths->memory, paths->cpu, paths->pids};

    for (size_t i = 0; i < ARRAY_SIZE(all); i++)
        if (all[i][0] && all[i][1])
            return all[i];
    for (size_t i = 0; i < ARRAY_SIZE(all); i++)
        if (all[i][0])
            return all[i];
    return NULL;
}

static int read_cgroup(struct facts_reader *reader, struct process_facts *facts)
{
    ssize_t length = read_file(reader, "cgroup");
    if (length <= 0)
        return (int)length;

    if (cgroup_paths_parse(reader->bytes, (size_t)length, &reader->paths) < 0)
        return 0;
    const char *path = choose_path(&reader->paths);
    if (!path)
        return 0;
    facts->cgroup = utf8_clean_copy(reader->arena, path);
    return facts->cgroup ? 0 : -ENOMEM;
}

static int read_environment(struct facts_reader *reader, const struct text_list *names,
                            struct process_facts *facts)
{
    struct line *found = arena_alloc(reader->arena, (names->count + 1) * sizeof(*found));
    const char **values = arena_alloc(reader->arena, (names->count + 1) * sizeof(*values));
    if (!found || !values)
        return -ENOMEM;

    ssize_t length = read_file(reader, "environ");
    if (length < 0)
        return (int)length;
    proc_environ_parse(reader->bytes, (size_t)length, names, found);
    for (size_t i = 0; i < names->count; i++) {
        values[i] = NULL;
        if (found[i].at)
            values[i] = utf8_clean_copy_bytes(reader->arena, found[i].at,
                                              (size_t)(found[i].end - found[i].at));
        if (found[i].at && !values[i])
            return -ENOMEM;
    }
    facts->values = (struct text_list){.items = values, .count = names->count};
    return 0;
}

static int read_uid(struct facts_reader *reader, struct process_facts *facts)
{
    struct proc_status status = {.uid = INT_UNKNOWN};

    ssize_t length = read_file(reader, "status");
    if (length < 0)
        return (int)length;
    proc_status_parse(reader->bytes, (size_t)length, &status);
    facts->uid = status.uid;
    return 0;
}

static int read_facts(struct facts_reader *reader, const struct fact_request *request,
                      struct process_facts *facts)
{
    int r = read_uid(reader, facts);
    if (r == 0 && request->facts & FACT_COMMAND)
        r = read_command(reader, facts);
    if (r == 0 && request->facts & FACT_CWD)
        r = read_cwd(reader, facts);
    if (r == 0 && request->facts & FACT_CGROUP)
        r = read_cgroup(reader, facts);
    if (r == 0 && request->facts & FACT_ENVIRONMENT)
        r = read_environment(reader, &request->names, facts);
    return r;
}

int process_facts_read(int root_fd, pid_t pid, const struct fact_request *request,
                       struct arena *arena, struct process_facts *ret)
{
    struct process_facts facts = {.uid = INT_UNKNOWN};
    char name[16];
    _cleanup_(facts_reader_freep) struct facts_reader *reader = malloc(sizeof(*reader));
    if (!reader)
        return -ENOMEM;

    snprintf(name, sizeof(name), "%d", (int)pid);
    reader->arena = arena;
    reader->dir_fd = openat(root_fd, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (reader->dir_fd < 0)
        return errno == ENOENT ? -ESRCH : -errno;
    int r = read_facts(reader, request, &facts);
    if (r < 0)
        return r;
    *ret = facts;
    return 0;
}

/* ---- descendants ---- */

struct descent {
    void (*on_child)(void *context, pid_t pid, pid_t ppid);
    void *context;
    struct map seen;           /* prevents duplicates: lists may change while they are read */
    struct VEC(pid_t) found;   /* processes in the order of reading their children */
    struct VEC(char) children; /* a thread's list */
    pid_t parent;
};

static int add_child(void *context, pid_t pid)
{
    struct descent *descent = context;

    if (map_get(&descent->seen, (uint64_t)pid))
        return 0;
    if (descent->seen.count >= DESCENDANTS_MAX)
        return -E2BIG;
    int r = map_put(&descent->seen, (uint64_t)pid, descent);
    if (r == 0)
        r = VEC_PUSH(&descent->found, pid);
    if (r == 0)
        descent->on_child(descent->context, pid, descent->parent);
    return r;
}

/* The kernel returns at most a page per read. */
static int read_list(struct descent *descent, int fd)
{
    const size_t page = 4096;

    descent->children.count = 0;
    for (;;) {
        int r = VEC_RESERVE(&descent->children, descent->children.count + page);
        if (r < 0)
            return r;
        ssize_t n = read(fd, descent->children.items + descent->children.count, page);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : 0;
        descent->children.count += (size_t)n;
        if (descent->children.count > CHILDREN_MAX_BYTES)
            return -E2BIG;
    }
}

/* A process that is gone has no children. The children of a hidden process are hidden as well. */
static bool is_harmless(int error)
{
    return proc_file_is_gone(error) || error == -EACCES || error == -EPERM;
}

static int read_thread(struct descent *descent, int task_fd, const char *tid)
{
    char path[NAME_MAX + sizeof("/children")];

    snprintf(path, sizeof(path), "%s/children", tid);
    _cleanup_close_ int fd = openat(task_fd, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT && faccessat(task_fd, tid, F_OK, 0) == 0)
        return -EOPNOTSUPP;
    int r = fd < 0 ? -errno : read_list(descent, fd);
    if (r < 0)
        return r;
    return proc_children_parse(descent->children.items, descent->children.count, add_child,
                               descent);
}

/* Reads the lists of all threads: a child is listed by the thread that forked it. */
static int read_process(struct descent *descent, int root_fd, pid_t pid)
{
    char path[32];

    snprintf(path, sizeof(path), "%d/task", (int)pid);
    _cleanup_closedir_ DIR *dir = fd_open_directory(root_fd, path);
    if (!dir)
        return -errno;

    descent->parent = pid;
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (*entry->d_name < '1' || *entry->d_name > '9')
            continue;
        int r = read_thread(descent, dirfd(dir), entry->d_name);
        if (r < 0 && !is_harmless(r))
            return r;
    }
    return 0;
}

int process_descendants_read(int root_fd, pid_t pid,
                             void (*on_child)(void *context, pid_t pid, pid_t ppid), void *context)
{
    struct descent descent = {.on_child = on_child, .context = context};

    int r = map_put(&descent.seen, (uint64_t)pid, &descent);
    if (r == 0)
        r = read_process(&descent, root_fd, pid);
    if (proc_file_is_gone(r))
        r = -ESRCH;
    for (size_t i = 0; r == 0 && i < descent.found.count; i++) {
        r = read_process(&descent, root_fd, descent.found.items[i]);
        r = is_harmless(r) ? 0 : r;
    }
    map_done(&descent.seen);
    VEC_DONE(&descent.found);
    VEC_DONE(&descent.children);
    return r;
}
