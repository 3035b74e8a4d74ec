/* The socket is non-blocking and every wait has a deadline. One request is pending at a time, so an
 * answer without an id (the daemon could not parse one, or rejects the connection) belongs to it.
 * Events that arrive before the answer are kept as lines and parsed by client_next(). */
#include "client/client.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd-io.h"
#include "base/vec.h"
#include "config/paths.h"
#include "model/event-name.h"

#define RECEIVE_BYTES (64 * 1024)

struct kept_line {
    char *bytes;
    size_t length;
};

struct client {
    int fd;
    int timeout_msec;
    char *path;
    uid_t peer_uid;
    int64_t last_id;
    struct rpc_framer framer;
    struct VEC(struct kept_line) kept; /* events, oldest first */
    size_t kept_bytes;
    uint64_t dropped; /* events dropped and not reported yet */
    char *buffer;     /* RECEIVE_BYTES */
    struct client_error error;
};

/* ---- errors ---- */

/* Formats the error and returns `r`. */
static int set_error(struct client_error *error, int r, const char *format, ...) _printf_(3, 4);

static int set_error(struct client_error *error, int r, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(error->text, sizeof(error->text), format, arguments);
    va_end(arguments);
    return r;
}

/* Describes a failed call or wait and returns `r`. */
static int set_call_error(struct client *client, int r)
{
    struct client_error *error = &client->error;

    switch (r) {
    case -ETIMEDOUT:
        return set_error(
            error, r,
            "the daemon at '%s' does not answer within %g s (it may be stopped, or very busy)",
            client->path, client->timeout_msec / 1000.0);
    case -EPIPE:
        return set_error(error, r, "the daemon at '%s' closed the connection", client->path);
    case -EBADMSG:
        return set_error(error, r, "'%s' does not speak the protocol of a sonde daemon",
                         client->path);
    case -EMSGSIZE:
        return set_error(
            error, r, "the answer of the daemon at '%s' is larger than %d MiB; request less data",
            client->path, CLIENT_ANSWER_MAX_BYTES / (1024 * 1024));
    default: return set_error(error, r, "the daemon at '%s': %s", client->path, strerror(-r));
    }
}

/* ---- opening ---- */

/* Only a blocking connect() waits for a full backlog, for at most the send timeout. */
static int connect_within(int fd, const struct sockaddr_un *address, int timeout_msec)
{
    const struct timeval limit = {.tv_sec = timeout_msec / 1000,
                                  .tv_usec = timeout_msec % 1000 * 1000};

    if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) < 0)
        return -errno;
    while (connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0) {
        if (errno == EAGAIN)
            return -ETIMEDOUT;
        if (errno != EINTR)
            return -errno;
    }
    int flags = fcntl(fd, F_GETFL);
    return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;
}

static int connect_to(const char *path, int timeout_msec, int *ret_fd)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    _cleanup_close_ int fd = -1;

    if (!paths_socket_fits(path))
        return -ENAMETOOLONG;
    strcpy(address.sun_path, path);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    int r = connect_within(fd, &address, timeout_msec);
    if (r == 0)
        *ret_fd = TAKE_FD(fd);
    return r;
}

enum trust {
    TRUST_FULL,
    TRUST_NONE,      /* the peer does not own the directory of the socket */
    TRUST_OPEN_PLACE /* it owns the directory, but any user could have made that */
};

/* Decides whether to trust a peer that is neither root nor this user. */
static enum trust trust_in_owner(uid_t uid, const char *path)
{
    const char *slash = strrchr(path, '/');
    char directory[PATHS_SOCKET_MAX_BYTES + sizeof("/..")] = ".";
    struct stat status;

    if (slash)
        snprintf(directory, sizeof(directory), "%.*s", slash == path ? 1 : (int)(slash - path),
                 path);
    if (stat(directory, &status) < 0 || status.st_uid != uid)
        return TRUST_NONE;
    /* Where other users can make directories, owning one proves nothing. */
    strncat(directory, "/..", sizeof(directory) - strlen(directory) - 1);
    _cleanup_close_ int parent_fd = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return parent_fd >= 0 && !fd_others_can_write(parent_fd) ? TRUST_FULL : TRUST_OPEN_PLACE;
}

/* Trusted peers are root, this user, and the owner of the socket's directory (a daemon with its own
 * user). Any other user has put a socket where a daemon was expected. */
static int check_peer(int fd, const char *path, uid_t *ret_uid, struct client_error *error)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
        return -errno;
    *ret_uid = peer.uid;
    if (peer.uid == 0 || peer.uid == geteuid())
        return 0;
    switch (trust_in_owner(peer.uid, path)) {
    case TRUST_FULL: return 0;
    case TRUST_NONE:
        return set_error(
            error, -EPERM,
            "the listener at '%s' has uid %lld, which is neither root nor this user nor the "
            "owner of its directory; not connecting",
            path, (long long)peer.uid);
    case TRUST_OPEN_PLACE: break;
    }
    return set_error(
        error, -EPERM,
        "the listener at '%s' and its directory belong to uid %lld, but other users could have "
        "created that directory; not connecting (run this as that user)",
        path, (long long)peer.uid);
}

/* A socket file without a listener was left by a daemon that died. */
static bool is_absent(int r)
{
    return r == -ENOENT || r == -ENOTDIR || r == -ECONNREFUSED;
}

/* Whether connect() was refused by the mode of the socket, which a daemon sets, and not by a
 * directory of its path. */
static bool is_refused_by_socket(const char *path)
{
    struct stat status;

    return stat(path, &status) == 0 && S_ISSOCK(status.st_mode);
}

static int set_connect_error(const char *path, int r, int timeout_msec, struct client_error *error)
{
    if (error->text[0]) /* check_peer() has set the error */
        return r;
    switch (r) {
    case -EACCES:
        if (!is_refused_by_socket(path))
            return set_error(error, r, "cannot connect to '%s': %s", path, strerror(-r));
        return set_error(error, r,
                         "the daemon at '%s' does not admit this user; see daemon.access in its "
                         "configuration",
                         path);
    case -ENAMETOOLONG:
        return set_error(
            error, r,
            "the socket's path '%.200s%s' is longer than %d bytes; use a shorter one with "
            "--socket or --state-dir",
            path, strlen(path) > 200 ? "…" : "", PATHS_SOCKET_MAX_BYTES);
    case -ETIMEDOUT:
        return set_error(error, r,
                         "the daemon at '%s' does not accept a connection within %g s (it may be "
                         "stopped, or very busy)",
                         path, timeout_msec / 1000.0);
    case -EPROTOTYPE:
    case -ENOTSOCK: return set_error(error, r, "'%s' is not the socket of a sonde daemon", path);
    default: return set_error(error, r, "cannot connect to '%s': %s", path, strerror(-r));
    }
}

static int set_absent_error(const char *const *paths, struct client_error *error)
{
    size_t length =
        (size_t)snprintf(error->text, sizeof(error->text), "no daemon is running (looked at");

    for (size_t i = 0; paths[i] && length < sizeof(error->text); i++)
        length += (size_t)snprintf(error->text + length, sizeof(error->text) - length, "%s '%s'",
                                   i ? " and" : "", paths[i]);
    if (length < sizeof(error->text))
        snprintf(error->text + length, sizeof(error->text) - length,
                 "); start one with: sonde daemon");
    return -ENOENT;
}

static int client_new(int fd, const char *path, uid_t peer_uid, int timeout_msec,
                      struct client **ret)
{
    struct client *client = calloc(1, sizeof(*client));

    if (!client)
        return -ENOMEM;
    client->fd = -1; /* the caller owns `fd` until the client is complete */
    client->timeout_msec = timeout_msec;
    client->peer_uid = peer_uid;
    client->framer.max_bytes = CLIENT_ANSWER_MAX_BYTES;
    client->path = strdup(path);
    client->buffer = malloc(RECEIVE_BYTES);
    if (!client->path || !client->buffer) {
        client_close(client);
        return -ENOMEM;
    }
    client->fd = fd;
    *ret = client;
    return 0;
}

static int open_one(const char *path, int timeout_msec, struct client **ret,
                    struct client_error *error)
{
    _cleanup_close_ int fd = -1;
    uid_t peer_uid = 0;

    error->text[0] = '\0';
    int r = connect_to(path, timeout_msec, &fd);
    if (r == 0)
        r = check_peer(fd, path, &peer_uid, error);
    if (r == 0)
        r = client_new(fd, path, peer_uid, timeout_msec, ret);
    if (r < 0)
        return is_absent(r) ? -ENOENT : set_connect_error(path, r, timeout_msec, error);
    TAKE_FD(fd);
    return 0;
}

int client_open(const struct client_options *options, struct client **ret,
                struct client_error *error)
{
    int timeout_msec = options->timeout_msec ? options->timeout_msec : CLIENT_TIMEOUT_MSEC;
    int first_failure = -ENOENT;

    for (size_t i = 0; options->socket_paths[i]; i++) {
        struct client_error reason;
        int r = open_one(options->socket_paths[i], timeout_msec, ret, &reason);
        if (r == 0)
            return 0;
        if (r != -ENOENT && first_failure == -ENOENT) {
            first_failure = r;
            *error = reason;
        }
    }
    return first_failure == -ENOENT ? set_absent_error(options->socket_paths, error)
                                    : first_failure;
}

void client_close(struct client *client)
{
    if (!client)
        return;
    for (size_t i = 0; i < client->kept.count; i++)
        free(client->kept.items[i].bytes);
    VEC_DONE(&client->kept);
    rpc_framer_done(&client->framer);
    close_fd(client->fd);
    free(client->buffer);
    free(client->path);
    free(client);
}

void client_closep(struct client **client)
{
    client_close(*client);
}

const char *client_socket_path(const struct client *client)
{
    return client->path;
}

bool client_sees_all(const struct client *client)
{
    return geteuid() == 0 || geteuid() == client->peer_uid;
}

int client_fd(const struct client *client)
{
    return client->fd;
}

void client_set_timeout(struct client *client, int timeout_msec)
{
    client->timeout_msec = timeout_msec;
}

const char *client_strerror(const struct client *client)
{
    return client->error.text;
}

/* ---- bytes ---- */

#define NO_DEADLINE UINT64_MAX

static uint64_t deadline_after(int timeout_msec)
{
    return timeout_msec < 0 ? NO_DEADLINE : clock_mono_ns() + (uint64_t)timeout_msec * NS_PER_MSEC;
}

static int wait_for(const struct client *client, short events, uint64_t deadline_ns)
{
    for (;;) {
        struct pollfd fd = {.fd = client->fd, .events = events};
        uint64_t now_ns = clock_mono_ns();
        uint64_t left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
        uint64_t left_msec = (left_ns + NS_PER_MSEC - 1) / NS_PER_MSEC;
        int timeout = deadline_ns == NO_DEADLINE ? -1 : (int)MIN(left_msec, (uint64_t)INT_MAX);

        int r = poll(&fd, 1, timeout);
        if (r > 0)
            return 0;
        if (r == 0)
            return -ETIMEDOUT;
        if (errno != EINTR)
            return -errno;
    }
}

static int send_all(const struct client *client, const struct text *bytes, uint64_t deadline_ns)
{
    size_t sent = 0;

    while (sent < bytes->length) {
        ssize_t n = send(client->fd, bytes->bytes + sent, bytes->length - sent, MSG_NOSIGNAL);
        if (n >= 0) {
            sent += (size_t)n;
            continue;
        }
        if (errno == EINTR)
            continue;
        if (errno != EAGAIN)
            return errno == ECONNRESET ? -EPIPE : -errno;
        int r = wait_for(client, POLLOUT, deadline_ns);
        if (r < 0)
            return r;
    }
    return 0;
}

static int receive_some(struct client *client, uint64_t deadline_ns)
{
    for (;;) {
        ssize_t n = recv(client->fd, client->buffer, RECEIVE_BYTES, 0);
        if (n > 0)
            return rpc_framer_feed(&client->framer, client->buffer, (size_t)n);
        if (n == 0 || errno == ECONNRESET)
            return -EPIPE;
        if (errno == EINTR)
            continue;
        if (errno != EAGAIN)
            return -errno;
        int r = wait_for(client, POLLIN, deadline_ns);
        if (r < 0)
            return r;
    }
}

/* Returns the next line, valid until the next call. */
static int next_line(struct client *client, uint64_t deadline_ns, const char **ret_line,
                     size_t *ret_length)
{
    while (!rpc_framer_next(&client->framer, ret_line, ret_length)) {
        int r = receive_some(client, deadline_ns);
        if (r < 0)
            return r;
    }
    return 0;
}

/* ---- events before an answer ---- */

static struct kept_line pop_oldest(struct client *client)
{
    struct kept_line line = client->kept.items[0];

    client->kept.count--;
    memmove(client->kept.items, client->kept.items + 1,
            client->kept.count * sizeof(*client->kept.items));
    client->kept_bytes -= line.length;
    return line;
}

static int keep_event(struct client *client, const char *bytes, size_t length)
{
    while (client->kept.count && (client->kept.count == CLIENT_KEPT_MAX_EVENTS ||
                                  client->kept_bytes + length > CLIENT_KEPT_MAX_BYTES)) {
        free(pop_oldest(client).bytes);
        client->dropped++;
    }
    struct kept_line line = {.bytes = malloc(length), .length = length};
    if (!line.bytes)
        return -ENOMEM;
    memcpy(line.bytes, bytes, length);
    int r = VEC_PUSH(&client->kept, line);
    if (r < 0)
        free(line.bytes);
    else
        client->kept_bytes += length;
    return r;
}

uint64_t client_take_dropped(struct client *client)
{
    return TAKE(client->dropped, 0);
}

/* ---- requests and events ---- */

static int await_answer(struct client *client, uint64_t deadline_ns, struct arena *arena,
                        struct rpc_reply *ret)
{
    for (;;) {
        struct rpc_reply reply;
        const char *line;
        size_t length;

        int r = next_line(client, deadline_ns, &line, &length);
        if (r == 0)
            r = rpc_reply_parse(line, length, arena, &reply);
        if (r < 0)
            return r;
        if (reply.is_event) {
            r = keep_event(client, line, length);
            if (r < 0)
                return r;
            if (clock_mono_ns() >= deadline_ns) /* a flood of events does not extend the deadline */
                return -ETIMEDOUT;
        } else if (reply.id == client->last_id || (reply.error && !int_is_known(reply.id))) {
            *ret = reply;
            return 0;
        }
    }
}

int client_call(struct client *client, const char *method, const char *params, struct arena *arena,
                struct rpc_reply *ret)
{
    uint64_t deadline_ns = deadline_after(client->timeout_msec);
    _cleanup_text_ struct text request = {0};

    rpc_write_request(&request, ++client->last_id, method, params);
    text_append_char(&request, '\n');
    int r = text_error(&request);
    if (r == 0)
        r = send_all(client, &request, deadline_ns);
    /* A daemon may have sent an error before it closed the connection. */
    if (r == 0 || r == -EPIPE)
        r = await_answer(client, deadline_ns, arena, ret);
    return r < 0 ? set_call_error(client, r) : 0;
}

int client_stream_events(struct client *client, struct arena *arena, struct rpc_reply *ret)
{
    _cleanup_text_ struct text params = {0};
    struct json_writer json = {.out = &params};

    json_write_begin_object(&json);
    json_write_key(&json, "events");
    event_name_write_patterns(&json);
    json_write_end_object(&json);
    int r = text_error(&params);
    return r < 0 ? set_call_error(client, r)
                 : client_call(client, "daemon.monitor.stream", params.bytes, arena, ret);
}

static int next_event(struct client *client, uint64_t deadline_ns, struct arena *arena,
                      struct rpc_reply *ret)
{
    const char *line;
    size_t length;

    if (client->kept.count) {
        struct kept_line kept = pop_oldest(client);
        _cleanup_free_ char *bytes = kept.bytes;
        return rpc_reply_parse(bytes, kept.length, arena, ret);
    }
    int r = next_line(client, deadline_ns, &line, &length);
    return r < 0 ? r : rpc_reply_parse(line, length, arena, ret);
}

int client_next(struct client *client, int timeout_msec, struct arena *arena, struct rpc_reply *ret)
{
    uint64_t deadline_ns = deadline_after(timeout_msec);
    struct rpc_reply reply;
    int r;

    do
        r = next_event(client, deadline_ns, arena, &reply);
    while (r == 0 && !reply.is_event);
    if (r == -ETIMEDOUT) /* not an error: there is no event yet */
        return r;
    if (r < 0)
        return set_call_error(client, r);
    *ret = reply;
    return 0;
}
