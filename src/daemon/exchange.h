/* One line of a client and its answers: requests are handled in their order; one that asks the
 * store is waited for, while the loop goes on. */
#pragma once

#include "base/text.h"

struct daemon;
struct connection;
struct exchange;

/* Called once all is answered: `out` is what to send, with a newline; empty: nothing. The exchange
 * is gone then. */
typedef void (*exchange_fn)(struct connection *connection, struct text *out);

/* Answers at once as far as it can: on_done may be called before it returns. NULL: it is done, or
 * there was no memory (*ret_error). */
struct exchange *exchange_start(struct daemon *daemon, struct connection *connection,
                                const char *line, size_t length, exchange_fn on_done,
                                int *ret_error);

/* Nobody waits for the answers any more: on_done will not be called. */
void exchange_abandon(struct exchange *exchange);
