/* A fake daemon on a real socket, with answers of the test: one thread accepts, and one serves each
 * connection. */
#pragma once

#include <stdbool.h>

#include "daemon/methods.h"
#include "rpc/codec.h"

/* Returns what to send for a request or, with `request` NULL, right after the connection was made.
 * False: closes the connection after that. Called from other threads, so it must not assert. */
typedef bool (*fake_daemon_fn)(void *context, const struct rpc_request *request, struct text *out);

struct fake_daemon;

/* Fails the test if it cannot be started. */
struct fake_daemon *fake_daemon_start(const char *path, fake_daemon_fn answer, void *context);
/* Closes all connections; the socket file stays, as that of a daemon that died. */
void fake_daemon_stop(struct fake_daemon *daemon);

/* For answers. */
void fake_result(struct text *out, const struct rpc_request *request, const char *result);
void fake_error(struct text *out, const struct rpc_request *request, int code, const char *words);
void fake_event(struct text *out, const char *envelope);
