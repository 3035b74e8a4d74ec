/* A connection to a daemon for verbs: requests one at a time, or a stream. Calls block, and every
 * wait has a timeout. */
#pragma once

#include <stdint.h>

#include "rpc/codec.h"

/* The wait for a daemon that is busy or stopped. */
#define CLIENT_TIMEOUT_MSEC 5000
/* The largest answer: a snapshot of ten thousand processes has about 8 MB. */
#define CLIENT_ANSWER_MAX_BYTES (64 * 1024 * 1024)
/* Limits of the events that are kept while a call waits for its answer. Beyond them, the client
 * drops and counts the oldest events. */
#define CLIENT_KEPT_MAX_EVENTS 1000
#define CLIENT_KEPT_MAX_BYTES  (8 * 1024 * 1024)

struct client;

/* A message that names the socket, the cause and the fix; no newline. */
struct client_error {
    char text[512];
};

struct client_options {
    /* The sockets to try, in order; NULL ends the list. */
    const char *const *socket_paths;
    int timeout_msec; /* 0: CLIENT_TIMEOUT_MSEC */
};

/* Connects to the first socket that has a listener. The listener must be root, this user, or the
 * owner of the socket's directory (if other users cannot make such a directory), so that no other
 * user can pose as a daemon. Returns 0, -ENOENT (no daemon; a socket without a listener counts as
 * none), -EACCES (the daemon does not admit this user, or a directory of the path cannot be
 * entered), -EPERM (the listener is not trusted), -ENAMETOOLONG (the path is too long for a socket)
 * or another negative errno. */
int client_open(const struct client_options *options, struct client **ret,
                struct client_error *error);
void client_close(struct client *client);
void client_closep(struct client **client);

/* The path of the connected socket; valid as long as the client. */
const char *client_socket_path(const struct client *client);
/* Whether this user sees the jobs of all users: it is root or the daemon's user. */
bool client_sees_all(const struct client *client);
/* The descriptor to poll for input; the client owns it. */
int client_fd(const struct client *client);

/* Sets the timeout of the following calls, because some answers take long. */
void client_set_timeout(struct client *client, int timeout_msec);

/* Sends a request and waits for its answer, which is placed in `arena`. `params` is a JSON object
 * or NULL. Returns 0, also if the daemon answered with an error (ret->error); or a negative errno
 * with a message in client_strerror(), after which the client can only be closed. */
int client_call(struct client *client, const char *method, const char *params, struct arena *arena,
                struct rpc_reply *ret);
/* Requests the stream of all events except snapshots, like client_call(); client_next() returns
 * them. */
int client_stream_events(struct client *client, struct arena *arena, struct rpc_reply *ret);
/* Waits for the next notification of a stream, which is placed in `arena`; `timeout_msec` -1: no
 * limit. Returns 0, -ETIMEDOUT, -EPIPE (the daemon is gone) or another negative errno. */
int client_next(struct client *client, int timeout_msec, struct arena *arena,
                struct rpc_reply *ret);
/* Returns the number of events dropped since the last call of this function. The caller must show
 * it to the user. */
uint64_t client_take_dropped(struct client *client);
/* The message of the last error; empty: none. */
const char *client_strerror(const struct client *client);
