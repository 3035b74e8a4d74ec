/* One client: its requests in, answers and streams out. What it may see and do follows from who it
 * is by the kernel's word. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "base/text.h"
#include "daemon/bus.h"
#include "daemon/peer.h"

/* Answers and events that wait to be read; when there are more, no further request is read, and
 * events stay in the bus. */
#define CONNECTION_OUTPUT_BYTES (256 * 1024)
#define CONNECTION_STREAMS_MAX  4
/* Up to this a line that is not whole yet is nobody's concern. */
#define CONNECTION_SMALL_BYTES (64 * 1024)
/* After this the rest of its requests wait for the next turn of the loop. */
#define CONNECTION_TURN_MSEC 10
/* Without a request, a stream or a run of its own. */
#define CONNECTION_IDLE_SEC 600

struct daemon;
struct server;
struct connection;

/* Takes the descriptor over. 0 or a negative errno. */
int connection_open(struct server *server, struct daemon *daemon, int fd, const struct peer *peer,
                    struct connection **ret);
void connection_close(struct connection *connection);

/* Bytes of it that wait to be answered, or for the end of their line. */
size_t connection_buffered(const struct connection *connection);
/* Bytes that it has not read yet. */
size_t connection_unread(const struct connection *connection);

/* Whether the client has closed its end; what it sent before may be unread. */
bool connection_has_left(const struct connection *connection);

const struct peer *connection_peer(const struct connection *connection);
/* Whether it has let something wait for too long. */
bool connection_is_stale(const struct connection *connection, uint64_t now_ns);
/* It has begun a run: it may keep silent for as long as its process has one. */
void connection_keep_open(struct connection *connection);

/* Sends what the patterns and the view name from now on, after the answer that is being made. 0;
 * -E2BIG: it has too many streams; -EINVAL or -ENOMEM as bus_subscribe(). */
int connection_stream(struct connection *connection, const char *const *patterns, size_t count,
                      const struct bus_view *view);
