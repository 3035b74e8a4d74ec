#include "daemon/server.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd-io.h"
#include "base/log.h"
#include "base/vec.h"
#include "daemon/daemon-state.h"
#include "loop/fd-watch.h"
#include "probe/procfs.h"
#include "rpc/codec.h"

#define BACKLOG 128
/* Connections accepted in one iteration of the loop: a flood must not delay ticks. */
#define ACCEPT_MAX   32
#define SWEEP_MAX_MS 5000
/* Descriptors reserved for databases, logs and files that are open only briefly. */
#define DESCRIPTORS_OF_OTHERS 64

struct server {
    struct daemon *daemon;
    char path[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
    struct fd_watch *watch;
    int fd;
    int path_fd;            /* the socket file itself, even if another file replaces it later */
    bool lacks_descriptors; /* accepting failed for lack of descriptors, which was logged */
    bool has_lacked_any;    /* it failed so since the last sweep */
    bool has_logged_full;
    bool has_logged_lost;
    uv_timer_t sweep;
    enum access_kind access;
    gid_t group;
    struct VEC(struct connection *) connections;
    size_t connections_max;
    uint64_t refused; /* number of rejected connections */
};

/* ---- permissions ---- */

static int find_group(const struct access_config *access, gid_t *ret)
{
    if (access->kind != ACCESS_GROUP)
        return 0;
    errno = 0;
    const struct group *group = getgrnam(access->group);
    if (!group)
        return errno ? -errno : -ENOENT;
    *ret = group->gr_gid;
    return 0;
}

static mode_t mode_of(enum access_kind kind)
{
    switch (kind) {
    case ACCESS_OWNER: return 0600;
    case ACCESS_GROUP: return 0660;
    case ACCESS_EVERYONE: return 0666;
    }
    return 0600;
}

/* The mode is narrowed first and widened last, so that it is never too wide. */
static int set_mode(const struct server *server, enum access_kind kind, gid_t group)
{
    char path[32];

    snprintf(path, sizeof(path), "/proc/self/fd/%d", server->path_fd);
    if (chmod(path, 0600) < 0 ||
        fchownat(server->path_fd, "", (uid_t)-1, group, AT_EMPTY_PATH) < 0 ||
        chmod(path, mode_of(kind)) < 0)
        return -errno;
    return 0;
}

/* The mode of the socket enforces this; the check covers connections that were opened earlier. */
static bool may_connect(const struct server *server, const struct peer *peer)
{
    return peer->sees_all || server->access != ACCESS_OWNER;
}

/* Disconnects clients that the configuration no longer admits. Group membership is checked when a
 * client connects. */
static void close_unadmitted(struct server *server)
{
    for (size_t i = server->connections.count; i-- > 0;)
        if (!may_connect(server, connection_peer(server->connections.items[i])))
            connection_close(server->connections.items[i]);
}

int server_set_access(struct server *server, const struct access_config *access)
{
    gid_t group = getegid();

    int r = find_group(access, &group);
    if (r < 0)
        return r;
    r = set_mode(server, access->kind, group);
    if (r < 0) {
        set_mode(server, server->access, server->group);
        return r;
    }
    server->access = access->kind;
    server->group = group;
    close_unadmitted(server);
    return 0;
}

static size_t sum_of_user(const struct server *server, uid_t uid,
                          size_t (*measure)(const struct connection *connection))
{
    size_t sum = 0;

    for (size_t i = 0; i < server->connections.count; i++)
        if (connection_peer(server->connections.items[i])->uid == uid)
            sum += measure(server->connections.items[i]);
    return sum;
}

bool server_has_buffer(const struct server *server, const struct peer *peer)
{
    return peer->sees_all ||
           sum_of_user(server, peer->uid, connection_buffered) <= SERVER_BUFFER_PER_USER;
}

bool server_has_output(const struct server *server, const struct peer *peer)
{
    return peer->sees_all ||
           sum_of_user(server, peer->uid, connection_unread) <= SERVER_OUTPUT_PER_USER;
}

static size_t count_of_user(const struct server *server, uid_t uid)
{
    size_t count = 0;

    for (size_t i = 0; i < server->connections.count; i++)
        count += connection_peer(server->connections.items[i])->uid == uid;
    return count;
}

/* Logs that the limit is reached, once until most connections are closed. */
static void log_full(struct server *server)
{
    char count[24];

    snprintf(count, sizeof(count), "%zu", server->connections.count);
    if (!server->has_logged_full)
        log_fields(LOG_LEVEL_WARNING, "too many connections: new ones are rejected", "connections",
                   count, "fix",
                   "a higher limit of open files allows up to 1024 (ulimit -n, LimitNOFILE=)",
                   NULL);
    server->has_logged_full = true;
}

/* Returns why the peer may not connect; NULL: it may. */
static const char *find_refusal(struct server *server, const struct peer *peer)
{
    if (!may_connect(server, peer))
        return "daemon.access does not admit this user";
    if (server->connections.count >= server->connections_max) {
        log_full(server);
        return "too many connections";
    }
    if (!peer->sees_all && count_of_user(server, peer->uid) >= SERVER_CONNECTIONS_PER_USER)
        return "too many connections of this user";
    return NULL;
}

/* Whether the file at its path is its own socket. */
static bool is_in_place(const struct server *server)
{
    struct stat own, there;

    return server->path_fd >= 0 && fstat(server->path_fd, &own) == 0 &&
           lstat(server->path, &there) == 0 && own.st_ino == there.st_ino &&
           own.st_dev == there.st_dev;
}

/* ---- connections ---- */

static void reject(struct server *server, int fd, int code, const char *why)
{
    _cleanup_text_ struct text out = {0};

    server->refused++;
    rpc_write_error(&out, NULL, code, why);
    text_append_char(&out, '\n');
    if (text_error(&out) == 0)
        send(fd, out.bytes, out.length, MSG_DONTWAIT | MSG_NOSIGNAL);
    close(fd);
}

static void admit(struct server *server, int fd)
{
    struct connection *connection;
    struct peer peer;

    if (peer_read(fd, &peer) < 0) {
        close(fd);
        return;
    }
    const char *why = find_refusal(server, &peer);
    if (!why && VEC_RESERVE(&server->connections, server->connections.count + 1) < 0)
        why = "no memory left";
    if (why) {
        reject(server, fd, may_connect(server, &peer) ? RPC_RESOURCES_EXHAUSTED : RPC_NOT_PERMITTED,
               why);
        return;
    }
    if (connection_open(server, server->daemon, fd, &peer, &connection) == 0)
        server->connections.items[server->connections.count++] = connection;
    else
        server->refused++;
}

/* Without descriptors, accepting is retried when a client leaves and at every sweep. */
static void pause_accepting(struct server *server)
{
    fd_watch_pause(server->watch);
    server->refused++;
    server->has_lacked_any = true;
    if (!server->lacks_descriptors)
        log_fields(LOG_LEVEL_WARNING, "too many open files: no more clients can connect for now",
                   "fix", "raise the limit (ulimit -n, LimitNOFILE=)", NULL);
    server->lacks_descriptors = true;
}

static void on_readable(void *context, int fd)
{
    struct server *server = context;

    for (int i = 0; i < ACCEPT_MAX; i++) {
        int peer_fd = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (peer_fd < 0) {
            if (errno == EMFILE || errno == ENFILE)
                pause_accepting(server);
            return;
        }
        admit(server, peer_fd);
    }
}

void server_forget(struct server *server, struct connection *connection)
{
    for (size_t i = 0; i < server->connections.count; i++)
        if (server->connections.items[i] == connection) {
            server->connections.items[i] = server->connections.items[--server->connections.count];
            break;
        }
    if (server->lacks_descriptors && server->watch)
        fd_watch_resume(server->watch);
}

static void listen_again(struct server *server);
static void on_sweep(uv_timer_t *timer);

int server_plan_sweep(struct server *server)
{
    double stall_ms = server->daemon->config->daemon_stall_seconds * 1e3;

    return uv_timer_start(&server->sweep, on_sweep, (uint64_t)MIN(stall_ms / 2, SWEEP_MAX_MS), 0);
}

static void on_sweep(uv_timer_t *timer)
{
    struct server *server = timer->data;
    uint64_t now_ns = clock_mono_ns();

    if (!is_in_place(server))
        listen_again(server);

    for (size_t i = server->connections.count; i-- > 0;)
        if (connection_is_stale(server->connections.items[i], now_ns))
            connection_close(server->connections.items[i]);
    if (!TAKE(server->has_lacked_any, false) && TAKE(server->lacks_descriptors, false))
        log_fields(LOG_LEVEL_INFO, "clients can connect again", NULL);
    if (server->watch)
        fd_watch_resume(server->watch);
    if (server->connections.count < server->connections_max / 2)
        server->has_logged_full = false;
    server_plan_sweep(server);
}

/* ---- start and end ---- */

/* The number of connections that leave enough descriptors for sampling and storing. */
static size_t count_allowed(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return SERVER_CONNECTIONS_MAX;
    size_t left = (size_t)limit.rlim_cur - procfs_default_budget();
    size_t spare = left > DESCRIPTORS_OF_OTHERS ? left - DESCRIPTORS_OF_OTHERS : 0;
    return MIN(MAX(spare, left / 4), (size_t)SERVER_CONNECTIONS_MAX);
}

int server_make_directory(const char *path)
{
    _cleanup_fd_location_ struct fd_location location = {.dir_fd = -1};

    int r = fd_locate(path, &location);
    if (r < 0 || !fd_location_lacks_dirs(&location))
        return r;
    r = fd_location_make_dirs(&location);
    if (r == 0 && fchmodat(location.dir_fd, ".", 0711, 0) < 0)
        r = -errno;
    return r;
}

/* The lock is held, so an existing socket is stale. Any other file is not ours. */
static int remove_stale(const char *path)
{
    struct stat status;

    if (lstat(path, &status) < 0)
        return errno == ENOENT ? 0 : -errno;
    if (!S_ISSOCK(status.st_mode))
        return -EEXIST;
    return unlink(path) < 0 ? -errno : 0;
}

/* Opens the socket that was just bound, unless another process has replaced it. */
static int open_path(const char *path, int *ret)
{
    _cleanup_close_ int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    struct stat status;

    if (fd < 0 || fstat(fd, &status) < 0)
        return -errno;
    if (!S_ISSOCK(status.st_mode) || status.st_uid != geteuid())
        return -EPERM;
    *ret = TAKE_FD(fd);
    return 0;
}

/* Bound with a mask that admits no other user, so that there is no gap between bind and chmod. */
static int bind_socket(const char *path, int *ret)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -errno;
    strcpy(address.sun_path, path);
    int r = remove_stale(path);
    if (r < 0)
        return r;
    mode_t mask = umask(0177);
    r = bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ? -errno : 0;
    umask(mask);
    if (r == 0 && listen(fd, BACKLOG) < 0)
        r = -errno;
    if (r == 0)
        *ret = TAKE_FD(fd);
    return r;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

/* Creates the socket at the server's path, sets its mode and watches it. */
static int open_socket(struct server *server, const struct access_config *access)
{
    int r = bind_socket(server->path, &server->fd);
    if (r == 0)
        r = open_path(server->path, &server->path_fd);
    if (r == 0)
        r = server_set_access(server, access);
    if (r == 0)
        r = fd_watch_start(&server->daemon->loop, server->fd, true, on_readable, server,
                           &server->watch);
    return r;
}

/* Warns if the directory of the socket keeps out users that the configuration admits. */
static void warn_if_unreachable(const struct server *server, const struct access_config *access)
{
    char directory[sizeof(server->path)];
    struct stat status;

    strcpy(directory, server->path);
    char *slash = strrchr(directory, '/');
    if (access->kind == ACCESS_OWNER || !slash || slash == directory)
        return;
    *slash = '\0';
    if (stat(directory, &status) == 0 && !(status.st_mode & (S_IXGRP | S_IXOTH)))
        log_fields(LOG_LEVEL_WARNING,
                   "other users cannot reach the socket, although daemon.access admits them",
                   "directory", directory, "fix",
                   "use --socket with a directory that they can enter", NULL);
}

/* The socket was removed, for example by a cleaner of temporary files: create it again. Connected
 * clients stay. */
static void listen_again(struct server *server)
{
    if (server->watch)
        fd_watch_close(TAKE_PTR(server->watch));
    else
        close_fd(server->fd);
    server->fd = -1;
    server->path_fd = close_fd(server->path_fd);
    int r = open_socket(server, &server->daemon->config->daemon_access);
    if (r == 0)
        log_fields(LOG_LEVEL_WARNING, "the socket was removed; created it again", "socket",
                   server->path, NULL);
    else if (!server->has_logged_lost)
        log_fields(LOG_LEVEL_ERROR, "the socket was removed and cannot be created again", "socket",
                   server->path, "cause", strerror(-r), NULL);
    server->has_logged_lost = r < 0;
}

int server_start(struct daemon *daemon, const char *path, const struct access_config *access,
                 struct server **ret)
{
    if (strlen(path) >= sizeof(((struct server *)NULL)->path))
        return -ENAMETOOLONG;
    struct server *server = calloc(1, sizeof(*server));
    if (!server)
        return -ENOMEM;
    server->daemon = daemon;
    server->fd = server->path_fd = -1;
    server->connections_max = count_allowed();
    server->group = getegid();
    strcpy(server->path, path);
    uv_timer_init(&daemon->loop, &server->sweep);
    server->sweep.data = server;
    int r = open_socket(server, access);
    if (r == 0)
        warn_if_unreachable(server, access);
    if (r == 0)
        r = server_plan_sweep(server);
    if (r < 0) {
        server_close(server);
        return r;
    }
    *ret = server;
    return 0;
}

void server_close(struct server *server)
{
    if (!server)
        return;
    while (server->connections.count)
        connection_close(server->connections.items[0]);
    VEC_DONE(&server->connections);
    if (server->watch)
        fd_watch_close(server->watch);
    else
        close_fd(server->fd);
    if (is_in_place(server))
        unlink(server->path);
    close_fd(server->path_fd);
    uv_close((uv_handle_t *)&server->sweep, on_closed);
}

size_t server_connection_count(const struct server *server)
{
    return server->connections.count;
}

uint64_t server_refused_count(const struct server *server)
{
    return server->refused;
}
