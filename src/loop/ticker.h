/* The sampling clock: an absolute timer, which does not drift (a repeating libuv timer does). */
#pragma once

#include <stdint.h>
#include <uv.h>

struct ticker;

/* `missed` is the number of earlier ticks that passed without a call. */
typedef void (*ticker_fn)(void *context, uint64_t missed);

/* Calls `on_tick` every `interval_ns`, first after one interval. Returns 0 or a negative errno. */
int ticker_start(uv_loop_t *loop, uint64_t interval_ns, ticker_fn on_tick, void *context,
                 struct ticker **ret);
void ticker_close(struct ticker *ticker);
