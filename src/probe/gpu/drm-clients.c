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
#include "base/macros.h"
#include "base/map.h"
#include "base/number.h"
#include "probe/gpu/drm-fdinfo.h"
#include "probe/process-files.h"

#define WALK_EVERY_NS (5 * NS_PER_SEC)
#define LOOK_EVERY_NS (NS_PER_SEC / 10)
/* Once a minute all are looked into: one may have closed a file and opened another. */
#define THOROUGH_WALK 12

/* Of one process; a browser has some dozens. */
#define FILES_MAX 256
/* Files that are read at one look, of which each may be a client: anyone may open as many as there
 * are descriptors, and should not make that our time and memory. */
#define CLIENTS_MAX 4096
/* What the kernel writes for the richest driver is 3 KB. */
#define FDINFO_SIZE 8192
#define NODES       "/dev/dri/"
#define NODE_MAX    UINT16_MAX

struct file {
    int number;
    unsigned node; /* N of cardN or renderDN, which do not overlap */
};

/* A process as it was when its descriptors were listed. */
struct holder {
    pid_t pid;
    ino_t inode;       /* of its directory: another process of that pid has another */
    off_t descriptors; /* how many it had */
    bool is_hidden;    /* its descriptors are not for this user, or more than are kept */
    unsigned walk;     /* the last that it was met in */
    struct VEC(struct file) files;
};

struct client {
    struct drm_fdinfo info;
    unsigned node;
    pid_t pid;                    /* the first that holds it */
    uint64_t key;                 /* in the map */
    unsigned look;                /* the last that it was met in */
    bool is_known;                /* by a look before that one */
    double busy[DRM_ENGINES_MAX]; /* share of the time between the two; NaN: not told */
};

struct drm_clients {
    struct proc_tree tree;
    struct map holders; /* pid → struct holder */
    struct map clients; /* key_of() → struct client */
    bool is_first_namespace;
    uint64_t walked_mono_ns;
    unsigned walks;
    uint64_t looked_mono_ns; /* when the last was */
    unsigned looks;
    size_t hidden;                      /* processes, by the last walk */
    size_t files_read;                  /* by the last look */
    uint64_t untold[NODE_MAX / 64 + 1]; /* nodes with a file that it learnt nothing of: bits */
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
    position = 0;
    for (struct client *client; (client = map_next(&clients->clients, &position));)
        free(client);
    map_done(&clients->clients);
    close_fd(clients->tree.root_fd);
    free(clients);
}

/* ---- who holds a file ---- */

/* A process, or a descriptor of one, may end while it is looked at. */
static bool is_gone(int error)
{
    return error == -ENOENT || error == -ESRCH;
}

/* To which node of a driver it leads. 0, -ENOENT (to none, or it is gone) or another negative
 * errno. */
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

/* false: those are not all. */
static bool list_files(struct holder *holder, DIR *directory)
{
    struct dirent *entry;
    int64_t number;
    unsigned node;

    while ((entry = readdir(directory))) {
        if (number_parse_int(entry->d_name, &number) < 0 || number < 0 || number > INT32_MAX)
            continue;
        int r = find_node(dirfd(directory), entry->d_name, &node);
        if (is_gone(r))
            continue;
        if (r < 0 || holder->files.count == FILES_MAX ||
            VEC_PUSH(&holder->files, (struct file){.number = (int)number, .node = node}) < 0)
            return false;
    }
    return true;
}

/* One that is gone has no files; while it goes, its links are refused. */
static void look_into(const struct drm_clients *clients, struct holder *holder)
{
    char path[32];

    snprintf(path, sizeof(path), "%d/fd", (int)holder->pid);
    _cleanup_closedir_ DIR *directory = fd_open_directory(clients->tree.root_fd, path);
    holder->files.count = 0;
    if (!directory)
        holder->is_hidden = !is_gone(-errno);
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

/* Kernel threads, and processes that are ending, have no descriptors. */
static void visit(struct drm_clients *clients, pid_t pid)
{
    const bool counts = clients->tree.fd_size_counts;
    char path[32];
    struct stat st;

    snprintf(path, sizeof(path), "%d/fd", (int)pid);
    if (fstatat(clients->tree.root_fd, path, &st, 0) < 0) {
        clients->hidden += !is_gone(-errno);
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
    if (!is_same || clients->walks % THOROUGH_WALK == 0)
        look_into(clients, holder);
    holder->inode = st.st_ino;
    holder->descriptors = st.st_size;
    holder->walk = clients->walks;
    clients->hidden += holder->is_hidden;
}

static void forget_gone(struct drm_clients *clients)
{
    size_t position = 0;

    for (struct holder *holder; (holder = map_next(&clients->holders, &position));)
        if (holder->walk != clients->walks) {
            map_remove(&clients->holders, (uint64_t)holder->pid);
            holder_free(holder);
            position--; /* another may have moved into its place */
        }
}

/* In another pid namespace than the first, and where /proc is mounted with hidepid=invisible, the
 * processes of others are not even listed; in the latter case pid 1 is one of them. A fixture need
 * not have one. */
static bool some_are_not_listed(const struct drm_clients *clients)
{
    if (!clients->is_first_namespace)
        return true;
    if (!clients->tree.is_live)
        return false;
    _cleanup_closedir_ DIR *directory = fd_open_directory(clients->tree.root_fd, "1/fd");
    return !directory;
}

static void walk(struct drm_clients *clients)
{
    _cleanup_closedir_ DIR *directory = fd_open_directory(clients->tree.root_fd, ".");
    struct dirent *entry;
    int64_t pid;

    clients->hidden = !directory || some_are_not_listed(clients);
    if (!directory)
        return;
    clients->walks++;
    while ((entry = readdir(directory)))
        if (number_parse_int(entry->d_name, &pid) == 0 && pid > 0 && pid <= INT32_MAX)
            visit(clients, (pid_t)pid);
    forget_gone(clients);
}

/* ---- what the files tell ---- */

/* Drivers may number their clients each for itself. Without a number of its own, a file is told
 * apart by who holds it. FNV-1a over the device, so that those of one device never have the same
 * key, and those of two hardly ever. */
static uint64_t key_of(const struct drm_fdinfo *info, pid_t pid, int file)
{
    const char *const texts[] = {info->driver, info->pdev};
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        for (const char *at = texts[i]; *at; at++)
            hash = (hash ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
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

/* A counter may fall behind what it has shown before, for a while. */
static int64_t keep_larger(int64_t before, int64_t now)
{
    return int_is_known(before) && int_is_known(now) ? MAX(before, now) : now;
}

static double share(int64_t before, int64_t now, double whole, int64_t capacity)
{
    if (!int_is_known(before) || !int_is_known(now) || whole <= 0)
        return REAL_UNKNOWN;
    return (double)(now - before) / whole / (double)capacity;
}

/* Time over time, or cycles over cycles, where the driver counts those. */
static double busy_share(const struct drm_engine *before, struct drm_engine *now,
                         uint64_t elapsed_ns)
{
    now->busy_ns = keep_larger(before->busy_ns, now->busy_ns);
    now->cycles = keep_larger(before->cycles, now->cycles);
    now->total_cycles = keep_larger(before->total_cycles, now->total_cycles);
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

/* false: there is no room for it. */
static bool note_client(struct drm_clients *clients, struct drm_fdinfo *info, pid_t pid,
                        const struct file *file, uint64_t elapsed_ns)
{
    uint64_t key = key_of(info, pid, file->number);
    struct client *client = map_get(&clients->clients, key);

    if (client && !is_of_same_device(&client->info, info))
        return false;
    if (client && client->look == clients->looks) { /* shared: it was met already */
        client->pid = MIN(client->pid, pid);
        return true;
    }
    if (client)
        update_client(client, info, elapsed_ns);
    else if (!(client = client_new(clients, info, key)))
        return false;
    client->node = file->node;
    client->pid = pid;
    client->look = clients->looks;
    return true;
}

/* 0, -ENOENT (it is not such a file any more) or -ENODATA: it is, and tells nothing. */
static int read_file(struct drm_clients *clients, pid_t pid, const struct file *file,
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
    return is_gone(r) || (r == 0 && node != file->node) ? -ENOENT : -ENODATA;
}

struct look {
    uint64_t elapsed_ns;
    const struct drm_device *asleep;
    size_t asleep_count;
};

static bool is_asleep(const struct look *look, unsigned node)
{
    for (size_t i = 0; i < look->asleep_count; i++)
        if (node == look->asleep[i].card || node == look->asleep[i].render)
            return true;
    return false;
}

static void mark_untold(struct drm_clients *clients, unsigned node)
{
    clients->untold[node / 64] |= UINT64_C(1) << node % 64;
}

static bool is_untold(const struct drm_clients *clients, unsigned node)
{
    return node <= NODE_MAX && clients->untold[node / 64] >> node % 64 & 1;
}

static void read_holder(struct drm_clients *clients, struct holder *holder, const struct look *look)
{
    struct drm_fdinfo info;

    for (size_t i = 0; i < holder->files.count; i++) {
        const struct file *file = &holder->files.items[i];
        if (is_asleep(look, file->node))
            continue;
        int r = clients->files_read < CLIENTS_MAX ? read_file(clients, holder->pid, file, &info)
                                                  : -ENOSPC;
        clients->files_read += r != -ENOSPC;
        if (r == -ENOENT)
            holder->inode = 0; /* to be listed again */
        else if (r < 0 || !note_client(clients, &info, holder->pid, file, look->elapsed_ns))
            mark_untold(clients, file->node);
    }
}

static void drop_stale(struct drm_clients *clients)
{
    size_t position = 0;

    for (struct client *client; (client = map_next(&clients->clients, &position));)
        if (client->look != clients->looks) {
            map_remove(&clients->clients, client->key);
            free(client);
            position--; /* another may have moved into its place */
        }
}

static void read_files(struct drm_clients *clients, const struct look *look)
{
    size_t position = 0;

    clients->files_read = 0;
    memset(clients->untold, 0, sizeof(clients->untold));
    for (struct holder *holder; (holder = map_next(&clients->holders, &position));)
        if (holder->files.count)
            read_holder(clients, holder, look);
    drop_stale(clients);
}

void drm_clients_look(struct drm_clients *clients, uint64_t mono_ns,
                      const struct drm_device *asleep, size_t count)
{
    if (clients->looks && mono_ns < clients->looked_mono_ns + LOOK_EVERY_NS)
        return;
    if (!clients->looks || mono_ns - clients->walked_mono_ns >= WALK_EVERY_NS) {
        uint64_t begun_ns = clock_mono_ns();
        walk(clients);
        clients->walked_mono_ns = mono_ns;
        mono_ns += clock_mono_ns() - begun_ns; /* the files are read after it */
    }
    clients->looks++;
    const struct look look = {
        .elapsed_ns = mono_ns - clients->looked_mono_ns, .asleep = asleep, .asleep_count = count};
    read_files(clients, &look);
    clients->looked_mono_ns = mono_ns;
}

/* ---- what comes of it ---- */

static bool is_of(const struct client *client, const struct drm_device *device)
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

/* What a client had done before it was first met belongs to another time. false: its driver does
 * not tell how busy it was. */
static bool add_client(const struct client *client,
                       struct engine_load loads[static DRM_ENGINES_MAX], size_t *count)
{
    bool is_told = !client->is_known;

    for (size_t i = 0; client->is_known && i < client->info.engine_count; i++)
        if (real_is_known(client->busy[i])) {
            add_load(loads, count, client->info.engines[i].name, client->busy[i]);
            is_told = true;
        }
    return is_told && client->info.engine_count;
}

double drm_clients_busy_pct(const struct drm_clients *clients, const struct drm_device *device)
{
    struct engine_load loads[DRM_ENGINES_MAX];
    size_t count = 0, position = 0;
    double largest = 0;

    if (clients->looks < 2 || clients->hidden || is_untold(clients, device->card) ||
        is_untold(clients, device->render))
        return REAL_UNKNOWN;
    for (const struct client *client; (client = map_next(&clients->clients, &position));)
        if (is_of(client, device) && !add_client(client, loads, &count))
            return REAL_UNKNOWN;
    for (size_t i = 0; i < count; i++)
        largest = fmax(largest, loads[i].share);
    return fmin(largest, 1) * 100;
}

static bool is_of_any(const struct client *client, const struct drm_device *devices, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (is_of(client, &devices[i]))
            return true;
    return false;
}

int drm_clients_read_processes(const struct drm_clients *clients, const struct drm_device *devices,
                               size_t count, struct gpu_reading *reading)
{
    size_t position = 0;

    for (const struct client *client; (client = map_next(&clients->clients, &position));) {
        int64_t bytes = drm_fdinfo_memory_bytes(&client->info);
        if (!int_is_known(bytes) || !is_of_any(client, devices, count))
            continue;
        int r = gpu_reading_add_process(reading, client->pid, bytes);
        if (r < 0)
            return r;
    }
    return 0;
}
