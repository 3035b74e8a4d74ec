#include "probe/gpu/drm-clients.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd-io.h"
#include "base/hash.h"
#include "base/macros.h"
#include "base/map.h"
#include "base/number.h"
#include "probe/gpu/drm-fdinfo.h"
#include "probe/proc-file.h"
#include "probe/process-files.h"

#define SCAN_EVERY_NS   (5 * NS_PER_SEC)
#define UPDATE_EVERY_NS (NS_PER_SEC / 10)
/* A full scan once a minute: a process may have closed one file and opened another. */
#define FULL_SCAN_EVERY 12

/* Per process; a browser has some dozens. */
#define FILES_MAX 256
/* Files read per update: any user may open very many, which must not cost sonde time and memory. */
#define CLIENTS_MAX 4096
/* The longest fdinfo of any driver has 3 KiB. */
#define FDINFO_SIZE 8192
#define NODES       "/dev/dri/"
#define NODE_MAX    UINT16_MAX

struct file {
    int number;
    unsigned node; /* N of cardN or renderDN, which do not overlap */
};

/* A process, as of the time when its descriptors were listed. */
struct holder {
    pid_t pid;
    ino_t inode;             /* of its directory: a new process with the pid has another */
    off_t descriptors;       /* their number */
    bool is_hidden;          /* its descriptors may not be read, or exceed FILES_MAX */
    unsigned scan_processes; /* the last scan that saw it */
    struct VEC(struct file) files;
};

struct client {
    struct drm_fdinfo info;
    unsigned node;
    pid_t pid;                    /* the smallest pid that has it open */
    uint64_t key;                 /* in the map */
    unsigned update;              /* the last update that saw it */
    bool is_known;                /* an earlier update saw it too */
    double busy[DRM_ENGINES_MAX]; /* share of the time between the two; NaN: not reported */
};

struct drm_clients {
    struct proc_tree tree;
    struct map holders; /* pid → struct holder */
    struct map clients; /* key_of() → struct client */
    bool is_first_namespace;
    uint64_t scanned_mono_ns;
    unsigned scans;
    uint64_t updated_mono_ns; /* time of the last update */
    unsigned updates;
    size_t hidden;                          /* processes, in the last scan */
    size_t files_read;                      /* in the last update */
    uint64_t unreported[NODE_MAX / 64 + 1]; /* bits: nodes with a file that could not be read */
    char buffer[FDINFO_SIZE];
};

int drm_clients_new(const char *proc_root, struct drm_clients **ret)
{
    struct drm_clients *clients = calloc(1, sizeof(*clients));
    if (!clients)
        return -ENOMEM;

    int fd = open(proc_root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        int error = errno;
        free(clients);
        return -error;
    }
    proc_tree_init(&clients->tree, fd, 0);
    clients->is_first_namespace = gpu_reading_knows_pids(fd);
    *ret = clients;
    return 0;
}

static void holder_free(struct holder *holder)
{
    if (!holder)
        return;
    VEC_DONE(&holder->files);
    free(holder);
}

void drm_clients_free(struct drm_clients *clients)
{
    size_t position = 0;

    if (!clients)
        return;
    for (struct holder *holder; (holder = map_next(&clients->holders, &position));)
        holder_free(holder);
    map_done(&clients->holders);
    map_done_free(&clients->clients);
    close_fd(clients->tree.root_fd);
    free(clients);
}

/* ---- finding open device files ---- */

/* Finds the device node that a descriptor refers to. Returns 0, -ENOENT (not a device node, or
 * gone) or another negative errno. */
static int find_node(int dir_fd, const char *name, unsigned *ret)
{
    static const char *const kinds[] = {NODES "card", NODES "renderD"};
    char target[64];
    int64_t number;

    ssize_t length = readlinkat(dir_fd, name, target, sizeof(target) - 1);
    if (length < 0)
        return -errno;
    target[length] = '\0';
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
        if (strncmp(target, kinds[i], strlen(kinds[i])) == 0 &&
            number_parse_int(target + strlen(kinds[i]), &number) == 0 && number >= 0 &&
            number <= NODE_MAX) {
            *ret = (unsigned)number;
            return 0;
        }
    return -ENOENT;
}

/* Returns false if the list is incomplete. */
static bool list_files(struct holder *holder, DIR *directory)
{
    struct dirent *entry;
    int64_t number;
    unsigned node;

    while ((entry = readdir(directory))) {
        if (number_parse_int(entry->d_name, &number) < 0 || number < 0 || number > INT32_MAX)
            continue;
        int r = find_node(dirfd(directory), entry->d_name, &node);
        if (proc_file_is_gone(r))
            continue;
        if (r < 0 || holder->files.count == FILES_MAX ||
            VEC_PUSH(&holder->files, (struct file){.number = (int)number, .node = node}) < 0)
            return false;
    }
    return true;
}

/* A process that is gone has no files. While it exits, reading its links fails. */
static void list_holder_files(const struct drm_clients *clients, struct holder *holder)
{
    char path[32];

    snprintf(path, sizeof(path), "%d/fd", (int)holder->pid);
    _cleanup_closedir_ DIR *directory = fd_open_directory(clients->tree.root_fd, path);
    holder->files.count = 0;
    if (!directory)
        holder->is_hidden = !proc_file_is_gone(-errno);
    else
        holder->is_hidden =
            !list_files(holder, directory) && faccessat(clients->tree.root_fd, path, F_OK, 0) == 0;
}

static struct holder *holder_of(struct drm_clients *clients, pid_t pid)
{
    struct holder *holder = map_get(&clients->holders, (uint64_t)pid);

    if (holder)
        return holder;
    holder = calloc(1, sizeof(*holder));
    if (!holder)
        return NULL;
    holder->pid = pid;
    if (map_put(&clients->holders, (uint64_t)pid, holder) < 0) {
        free(holder);
        return NULL;
    }
    return holder;
}

/* Kernel threads and exiting processes have no descriptors. */
static void scan_process(struct drm_clients *clients, pid_t pid)
{
    const bool counts = clients->tree.fd_size_counts;
    char path[32];
    struct stat st;

    snprintf(path, sizeof(path), "%d/fd", (int)pid);
    if (fstatat(clients->tree.root_fd, path, &st, 0) < 0) {
        clients->hidden += !proc_file_is_gone(-errno);
        return;
    }
    if (counts && st.st_size == 0)
        return;
    struct holder *holder = holder_of(clients, pid);
    if (!holder) {
        clients->hidden++;
        return;
    }
    bool is_same = counts && holder->inode == st.st_ino && holder->descriptors == st.st_size;
    if (!is_same || clients->scans % FULL_SCAN_EVERY == 0)
        list_holder_files(clients, holder);
    holder->inode = st.st_ino;
    holder->descriptors = st.st_size;
    holder->scan_processes = clients->scans;
    clients->hidden += holder->is_hidden;
}

static void drop_gone(struct drm_clients *clients)
{
    size_t position = 0;

    for (struct holder *holder; (holder = map_next(&clients->holders, &position));)
        if (holder->scan_processes != clients->scans) {
            map_remove(&clients->holders, (uint64_t)holder->pid);
            holder_free(holder);
            position--; /* see map_next() */
        }
}

/* In a pid namespace other than the initial one, and with hidepid=invisible, /proc does not list
 * processes of other users. In the latter case pid 1 is not listed. A fixture may have no pid 1. */
static bool has_unlisted_processes(const struct drm_clients *clients)
{
    if (!clients->is_first_namespace)
        return true;
    if (!clients->tree.is_live)
        return false;
    _cleanup_closedir_ DIR *directory = fd_open_directory(clients->tree.root_fd, "1/fd");
    return !directory;
}

static void scan_processes(struct drm_clients *clients)
{
    _cleanup_closedir_ DIR *directory = fd_open_directory(clients->tree.root_fd, ".");
    struct dirent *entry;
    int64_t pid;

    clients->hidden = !directory || has_unlisted_processes(clients);
    if (!directory)
        return;
    clients->scans++;
    while ((entry = readdir(directory)))
        if (number_parse_int(entry->d_name, &pid) == 0 && pid > 0 && pid <= INT32_MAX)
            scan_process(clients, (pid_t)pid);
    drop_gone(clients);
}

/* ---- reading device files ---- */

/* Client ids may be unique only per driver. A file without an id is identified by its process and
 * descriptor. The hash of the device makes keys of one device unique, and collisions
 * between two devices very unlikely. */
static uint64_t key_of(const struct drm_fdinfo *info, pid_t pid, int file)
{
    uint64_t hash = hash_add(hash_text(info->driver), info->pdev, strlen(info->pdev));

    return hash ^ (int_is_known(info->client_id) ? (uint64_t)info->client_id
                                                 : (uint64_t)pid << 32 | (uint64_t)file);
}

static bool is_of_same_device(const struct drm_fdinfo *a, const struct drm_fdinfo *b)
{
    return strcmp(a->driver, b->driver) == 0 && strcmp(a->pdev, b->pdev) == 0;
}

static struct client *client_new(struct drm_clients *clients, const struct drm_fdinfo *info,
                                 uint64_t key)
{
    struct client *client = calloc(1, sizeof(*client));

    if (!client)
        return NULL;
    client->info = *info;
    client->key = key;
    if (map_put(&clients->clients, key, client) < 0) {
        free(client);
        return NULL;
    }
    return client;
}

static const struct drm_engine *find_engine(const struct drm_fdinfo *info, const char *name)
{
    for (size_t i = 0; i < info->engine_count; i++)
        if (strcmp(info->engines[i].name, name) == 0)
            return &info->engines[i];
    return NULL;
}

/* Returns the larger of two counts: a counter may temporarily be smaller than before. */
static int64_t larger_known(int64_t before, int64_t now)
{
    return int_is_known(before) && int_is_known(now) ? MAX(before, now) : now;
}

static double share(int64_t before, int64_t now, double whole, int64_t capacity)
{
    if (!int_is_known(before) || !int_is_known(now) || whole <= 0)
        return REAL_UNKNOWN;
    return (double)(now - before) / whole / (double)capacity;
}

/* Busy time over elapsed time or, if the driver counts cycles, busy cycles over total cycles. */
static double busy_share(const struct drm_engine *before, struct drm_engine *now,
                         uint64_t elapsed_ns)
{
    now->busy_ns = larger_known(before->busy_ns, now->busy_ns);
    now->cycles = larger_known(before->cycles, now->cycles);
    now->total_cycles = larger_known(before->total_cycles, now->total_cycles);
    if (int_is_known(now->busy_ns))
        return share(before->busy_ns, now->busy_ns, (double)elapsed_ns, now->capacity);
    if (!int_is_known(before->total_cycles) || !int_is_known(now->total_cycles))
        return REAL_UNKNOWN;
    return share(before->cycles, now->cycles, (double)(now->total_cycles - before->total_cycles),
                 now->capacity);
}

static void update_client(struct client *client, struct drm_fdinfo *info, uint64_t elapsed_ns)
{
    for (size_t i = 0; i < info->engine_count; i++) {
        const struct drm_engine *before = find_engine(&client->info, info->engines[i].name);
        client->busy[i] = before ? busy_share(before, &info->engines[i], elapsed_ns) : REAL_UNKNOWN;
    }
    client->info = *info;
    client->is_known = true;
}

/* Returns false if the client cannot be stored. */
static bool record_client(struct drm_clients *clients, struct drm_fdinfo *info, pid_t pid,
                          const struct file *file, uint64_t elapsed_ns)
{
    uint64_t key = key_of(info, pid, file->number);
    struct client *client = map_get(&clients->clients, key);

    if (client && !is_of_same_device(&client->info, info))
        return false;
    if (client && client->update == clients->updates) { /* shared with a process already read */
        client->pid = MIN(client->pid, pid);
        return true;
    }
    if (client)
        update_client(client, info, elapsed_ns);
    else if (!(client = client_new(clients, info, key)))
        return false;
    client->node = file->node;
    client->pid = pid;
    client->update = clients->updates;
    return true;
}

/* Returns 0, -ENOENT (no longer a device file) or -ENODATA (a device file without figures). */
static int read_fdinfo(struct drm_clients *clients, pid_t pid, const struct file *file,
                       struct drm_fdinfo *ret)
{
    const int root_fd = clients->tree.root_fd;
    char path[48];
    unsigned node;

    snprintf(path, sizeof(path), "%d/fdinfo/%d", (int)pid, file->number);
    ssize_t length = fd_read_file(root_fd, path, clients->buffer, sizeof(clients->buffer));
    int r = length < 0 ? (int)length : drm_fdinfo_parse(clients->buffer, (size_t)length, ret);
    if (r == 0)
        return 0;
    snprintf(path, sizeof(path), "%d/fd/%d", (int)pid, file->number);
    r = find_node(root_fd, path, &node);
    return proc_file_is_gone(r) || (r == 0 && node != file->node) ? -ENOENT : -ENODATA;
}

struct update {
    uint64_t elapsed_ns;
    const struct drm_device *asleep;
    size_t asleep_count;
};

static bool is_asleep(const struct update *update, unsigned node)
{
    for (size_t i = 0; i < update->asleep_count; i++)
        if (node == update->asleep[i].card || node == update->asleep[i].render)
            return true;
    return false;
}

static void mark_unreported(struct drm_clients *clients, unsigned node)
{
    clients->unreported[node / 64] |= UINT64_C(1) << node % 64;
}

static bool is_unreported(const struct drm_clients *clients, unsigned node)
{
    return node <= NODE_MAX && clients->unreported[node / 64] >> node % 64 & 1;
}

static void read_holder(struct drm_clients *clients, struct holder *holder,
                        const struct update *update)
{
    struct drm_fdinfo info;

    for (size_t i = 0; i < holder->files.count; i++) {
        const struct file *file = &holder->files.items[i];
        if (is_asleep(update, file->node))
            continue;
        int r = clients->files_read < CLIENTS_MAX ? read_fdinfo(clients, holder->pid, file, &info)
                                                  : -ENOSPC;
        clients->files_read += r != -ENOSPC;
        if (r == -ENOENT)
            holder->inode = 0; /* to be listed again */
        else if (r < 0 || !record_client(clients, &info, holder->pid, file, update->elapsed_ns))
            mark_unreported(clients, file->node);
    }
}

static void drop_stale(struct drm_clients *clients)
{
    size_t position = 0;

    for (struct client *client; (client = map_next(&clients->clients, &position));)
        if (client->update != clients->updates) {
            map_remove(&clients->clients, client->key);
            free(client);
            position--; /* see map_next() */
        }
}

static void read_files(struct drm_clients *clients, const struct update *update)
{
    size_t position = 0;

    clients->files_read = 0;
    memset(clients->unreported, 0, sizeof(clients->unreported));
    for (struct holder *holder; (holder = map_next(&clients->holders, &position));)
        if (holder->files.count)
            read_holder(clients, holder, update);
    drop_stale(clients);
}

void drm_clients_update(struct drm_clients *clients, uint64_t mono_ns,
                        const struct drm_device *asleep, size_t count)
{
    if (clients->updates && mono_ns < clients->updated_mono_ns + UPDATE_EVERY_NS)
        return;
    if (!clients->updates || mono_ns - clients->scanned_mono_ns >= SCAN_EVERY_NS) {
        uint64_t begun_ns = clock_mono_ns();
        scan_processes(clients);
        clients->scanned_mono_ns = mono_ns;
        mono_ns += clock_mono_ns() - begun_ns; /* the scan took this long */
    }
    clients->updates++;
    const struct update update = {
        .elapsed_ns = mono_ns - clients->updated_mono_ns, .asleep = asleep, .asleep_count = count};
    read_files(clients, &update);
    clients->updated_mono_ns = mono_ns;
}

/* ---- results ---- */

static bool belongs_to(const struct client *client, const struct drm_device *device)
{
    if (client->info.pdev[0])
        return strcmp(client->info.pdev, device->pdev) == 0;
    return client->node == device->card || client->node == device->render;
}

struct engine_load {
    const char *name;
    double share;
};

static void add_load(struct engine_load loads[static DRM_ENGINES_MAX], size_t *count,
                     const char *name, double busy)
{
    size_t i = 0;

    while (i < *count && strcmp(loads[i].name, name) != 0)
        i++;
    if (i == DRM_ENGINES_MAX)
        return;
    if (i == *count)
        loads[(*count)++] = (struct engine_load){.name = name};
    loads[i].share += busy;
}

/* Ignores a client that was just found: its past use belongs to an earlier time. Returns false if
 * the driver does not report the load. */
static bool add_client(const struct client *client,
                       struct engine_load loads[static DRM_ENGINES_MAX], size_t *count)
{
    bool is_reported = !client->is_known;

    for (size_t i = 0; client->is_known && i < client->info.engine_count; i++)
        if (real_is_known(client->busy[i])) {
            add_load(loads, count, client->info.engines[i].name, client->busy[i]);
            is_reported = true;
        }
    return is_reported && client->info.engine_count;
}

double drm_clients_busy_pct(const struct drm_clients *clients, const struct drm_device *device)
{
    struct engine_load loads[DRM_ENGINES_MAX];
    size_t count = 0, position = 0;
    double largest = 0;

    if (clients->updates < 2 || clients->hidden || is_unreported(clients, device->card) ||
        is_unreported(clients, device->render))
        return REAL_UNKNOWN;
    for (const struct client *client; (client = map_next(&clients->clients, &position));)
        if (belongs_to(client, device) && !add_client(client, loads, &count))
            return REAL_UNKNOWN;
    for (size_t i = 0; i < count; i++)
        largest = fmax(largest, loads[i].share);
    return fmin(largest, 1) * 100;
}

static bool belongs_to_any(const struct client *client, const struct drm_device *devices,
                           size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (belongs_to(client, &devices[i]))
            return true;
    return false;
}

int drm_clients_read_processes(const struct drm_clients *clients, const struct drm_device *devices,
                               size_t count, struct gpu_reading *reading)
{
    size_t position = 0;

    for (const struct client *client; (client = map_next(&clients->clients, &position));) {
        int64_t bytes = drm_fdinfo_memory_bytes(&client->info);
        if (!int_is_known(bytes) || !belongs_to_any(client, devices, count))
            continue;
        int r = gpu_reading_add_process(reading, client->pid, bytes);
        if (r < 0)
            return r;
    }
    return 0;
}
