#include "fake-daemon.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "unit.h"

#define CONNECTIONS_MAX 16

struct connection {
    struct fake_daemon *daemon;
    int fd;
    pthread_t thread;
};

struct fake_daemon {
    int fd;
    fake_daemon_fn answer;
    void *context;
    pthread_t thread;
    struct connection connections[CONNECTIONS_MAX];
    size_t count; /* owned by the accepting thread until it has ended */
};

static bool send_all(int fd, const struct text *bytes)
{
    for (size_t sent = 0; sent < bytes->length;) {
        ssize_t n = send(fd, bytes->bytes + sent, bytes->length - sent, MSG_NOSIGNAL);
        if (n < 0)
            return false;
        sent += (size_t)n;
    }
    return true;
}

static bool answer_line(const struct connection *connection, const char *line, size_t length)
{
    const struct fake_daemon *daemon = connection->daemon;
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_text_ struct text out = {0};
    struct rpc_message message = {0};

    if (line && (rpc_message_parse(&daemon_methods, line, length, &arena, &message) < 0 ||
                 message.count != 1))
        return false;
    bool goes_on = daemon->answer(daemon->context, line ? &message.items[0] : NULL, &out);
    return send_all(connection->fd, &out) && goes_on;
}

static void *serve(void *argument)
{
    const struct connection *connection = argument;
    struct rpc_framer framer = {0};
    bool goes_on = answer_line(connection, NULL, 0);

    while (goes_on) {
        char bytes[4096];
        const char *line;
        size_t length;
        ssize_t n = recv(connection->fd, bytes, sizeof(bytes), 0);
        if (n <= 0 || rpc_framer_feed(&framer, bytes, (size_t)n) < 0)
            break;
        while (goes_on && rpc_framer_next(&framer, &line, &length))
            goes_on = answer_line(connection, line, length);
    }
    shutdown(connection->fd, SHUT_RDWR);
    rpc_framer_done(&framer);
    return NULL;
}

static void *accept_all(void *argument)
{
    struct fake_daemon *daemon = argument;

    while (daemon->count < CONNECTIONS_MAX) {
        int fd = accept4(daemon->fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            break;
        struct connection *connection = &daemon->connections[daemon->count];
        *connection = (struct connection){.daemon = daemon, .fd = fd};
        if (pthread_create(&connection->thread, NULL, serve, connection) != 0) {
            close(fd);
            break;
        }
        daemon->count++;
    }
    return NULL;
}

struct fake_daemon *fake_daemon_start(const char *path, fake_daemon_fn answer, void *context)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct fake_daemon *daemon = calloc(1, sizeof(*daemon));

    assert_non_null(daemon);
    assert_true(strlen(path) < sizeof(address.sun_path));
    strcpy(address.sun_path, path);
    unlink(path);
    daemon->answer = answer;
    daemon->context = context;
    daemon->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(daemon->fd >= 0);
    assert_int_equal(bind(daemon->fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(daemon->fd, CONNECTIONS_MAX), 0);
    assert_int_equal(pthread_create(&daemon->thread, NULL, accept_all, daemon), 0);
    return daemon;
}

void fake_daemon_stop(struct fake_daemon *daemon)
{
    shutdown(daemon->fd, SHUT_RDWR); /* ends accept() */
    pthread_join(daemon->thread, NULL);
    for (size_t i = 0; i < daemon->count; i++) {
        shutdown(daemon->connections[i].fd, SHUT_RDWR);
        pthread_join(daemon->connections[i].thread, NULL);
        close(daemon->connections[i].fd);
    }
    close(daemon->fd);
    free(daemon);
}

void fake_result(struct text *out, const struct rpc_request *request, const char *result)
{
    rpc_write_result(out, request->id, result, strlen(result));
    text_append_char(out, '\n');
}

void fake_error(struct text *out, const struct rpc_request *request, int code, const char *words)
{
    rpc_write_error(out, request ? request->id : NULL, code, words);
    text_append_char(out, '\n');
}

void fake_event(struct text *out, const char *envelope)
{
    text_printf(out, "%s%s%s\n", RPC_EVENT_PREFIX, envelope, RPC_EVENT_SUFFIX);
}
