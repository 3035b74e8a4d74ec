/* One line of a client and its answers. Requests are handled in order; a request that queries the
 * store delays the following ones of this line, but not the loop. */
#pragma once

#include "base/text.h"

struct daemon;
struct connection;
struct exchange;

/* Called when all requests are answered: `out` holds the output with its newline, or nothing. The
 * exchange is freed then. */
typedef void (*exchange_fn)(struct connection *connection, struct text *out);

/* Handles a line. May call on_done before it returns. Returns NULL if the exchange is finished, or
 * without memory (*ret_error is -ENOMEM, else 0). */
struct exchange *exchange_start(struct daemon *daemon, struct connection *connection,
                                const char *line, size_t length, exchange_fn on_done,
                                int *ret_error);

/* The client is gone: on_done will not be called. */
void exchange_abandon(struct exchange *exchange);
