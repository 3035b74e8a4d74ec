/* A daemon that says what a test wants, on a real socket: a thread that accepts, and one for each
 * connection. */
#pragma once

#include <stdbool.h>

#include "rpc/codec.h"

/* What is sent for a request; or, with `request` NULL, at once after a connection was made. false:
 * it hangs up after that. Called from other threads, so that nothing is asserted in it. */
typedef bool (*fake_daemon_fn)(void *context, const struct rpc_request *request, struct text *out);

struct fake_daemon;

/* Fails the test if it cannot be started. */
struct fake_daemon *fake_daemon_start(const char *path, fake_daemon_fn answer, void *context);
/* Hangs up on everyone; the socket's file stays, as that of a daemon that died. */
void fake_daemon_stop(struct fake_daemon *daemon);

/* For answers. */
void fake_result(struct text *out, const struct rpc_request *request, const char *result);
void fake_error(struct text *out, const struct rpc_request *request, int code, const char *words);
void fake_event(struct text *out, const char *envelope);
