/* The sampling clock: an absolute timer that does not drift (a repeating libuv timer does). */
#pragma once

#include <stdint.h>
#include <uv.h>

struct ticker;

/* `missed` is the number of ticks that passed unserved before this one. */
typedef void (*ticker_fn)(void *context, uint64_t missed);

/* Ticks every `interval_ns` from one interval after now. 0 or a negative errno. */
int ticker_start(uv_loop_t *loop, uint64_t interval_ns, ticker_fn on_tick, void *context,
                 struct ticker **ret);
void ticker_close(struct ticker *ticker);
