/* One client connection: reads requests, writes answers and streams. The peer's uid, as reported by
 * the kernel, decides what the client may see and do. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "base/text.h"
#include "daemon/bus.h"
#include "daemon/peer.h"

/* The limit of output that the client has not read. Beyond it, the daemon reads no further request
 * and leaves events in the bus. */
#define CONNECTION_OUTPUT_BYTES (256 * 1024)
#define CONNECTION_STREAMS_MAX  4
/* An incomplete line up to this size does not count against the user's limit. */
#define CONNECTION_SMALL_BYTES (64 * 1024)
/* After this time in one iteration of the loop, the remaining requests of the client wait for the
 * next iteration. */
#define CONNECTION_TURN_MSEC 10
/* A client without a request, a stream or a run is closed after this. */
#define CONNECTION_IDLE_SEC 600

struct daemon;
struct server;
struct connection;

/* Takes ownership of the descriptor. Returns 0 or a negative errno. */
int connection_open(struct server *server, struct daemon *daemon, int fd, const struct peer *peer,
                    struct connection **ret);
/* Closes the connection; the loop frees it. */
void connection_close(struct connection *connection);

/* Bytes received and not answered yet, incomplete lines included. */
size_t connection_buffered(const struct connection *connection);
/* Bytes that the client has not read yet. */
size_t connection_unread(const struct connection *connection);

/* Whether the client has closed its end; requests that it sent before may be pending. */
bool connection_has_left(const struct connection *connection);

const struct peer *connection_peer(const struct connection *connection);
/* Whether the connection should be closed: the client does not read its output (a stream drops
 * events instead), does not complete a line, is idle without a stream or a run, or is gone. */
bool connection_is_stale(const struct connection *connection, uint64_t now_ns);
/* The client started a run: the connection is not closed as idle while the client's process owns a
 * run. */
void connection_keep_open(struct connection *connection);

/* Starts a stream of matching events, which follow the current answer. Returns 0, -E2BIG (too many
 * streams), or -EINVAL or -ENOMEM as bus_subscribe(). */
int connection_stream(struct connection *connection, const char *const *patterns, size_t count,
                      const struct bus_view *view);
