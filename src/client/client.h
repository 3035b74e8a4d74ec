/* Talks to a daemon: one connection, requests one after the other, or a stream. Blocking, with a
 * limit to every wait: for verbs. */
#pragma once

#include <stdint.h>

#include "rpc/codec.h"

/* A daemon that is busy or stopped is not waited for any longer. */
#define CLIENT_TIMEOUT_MSEC 5000
/* What a daemon may answer in one line: a snapshot of ten thousand processes has some 8 MB. */
#define CLIENT_ANSWER_MAX_BYTES (64 * 1024 * 1024)
/* Of events that come while an answer is waited for; the oldest are dropped, and counted. */
#define CLIENT_KEPT_MAX_EVENTS 1000
#define CLIENT_KEPT_MAX_BYTES  (8 * 1024 * 1024)

struct client;

/* What went wrong, in words that name the socket, the cause and the fix; no newline. */
struct client_error {
    char text[512];
};

struct client_options {
    /* Where daemons may be, in the order in which they are tried: NULL ends it. */
    const char *const *socket_paths;
    int timeout_msec; /* 0: CLIENT_TIMEOUT_MSEC */
};

/* The first that can be connected to. Who listens must be root, this user, or the owner of the
 * directory that the socket is in (where others cannot make such a directory): another user may not
 * pose as a daemon. 0; -ENOENT: no daemon is
 * there (a socket that nobody listens at counts as none); -EACCES: there is one, and it does not
 * let this user in; -EPERM: what listens is not to be believed; -ENAMETOOLONG: no socket can have
 * that path; another negative errno. */
int client_open(const struct client_options *options, struct client **ret,
                struct client_error *error);
void client_close(struct client *client);
void client_closep(struct client **client);

const char *client_socket_path(const struct client *client);
int client_fd(const struct client *client);

/* For the next calls: some questions take long to answer. */
void client_set_timeout(struct client *client, int timeout_msec);

/* One request and its answer. `params` is a JSON object, or NULL. 0, also if the daemon answered
 * with an error, which is in *ret; or a negative errno, in words by client_strerror(), after which
 * the client is only good for closing. */
int client_call(struct client *client, const char *method, const char *params, struct arena *arena,
                struct rpc_reply *ret);
/* The next notification of a stream. `timeout_msec` -1: as long as it takes. 0, -ETIMEDOUT,
 * -EPIPE (the daemon is gone) or another negative errno. */
int client_next(struct client *client, int timeout_msec, struct arena *arena,
                struct rpc_reply *ret);
/* Events that were dropped since the last call. The caller shows them: they are counted here only.
 */
uint64_t client_take_dropped(struct client *client);
const char *client_strerror(const struct client *client);
