/* Reads the figures of a GPU in a separate thread, so that a source that is slow, hangs, or waits
 * for a lock of the program (Python's) delays nothing else. The figures of such a source are
 * unknown, and there is no new request until it has answered. */
#pragma once

#include <stdbool.h>

#include "lib/gpu-figures.h"
#include "sonde/sonde.h"

struct gpu_feed;
struct gpu_set;

/* Opens the GPUs of this machine. Returns 0 or a negative errno. */
int gpu_feed_open_builtin(struct gpu_set **ret);

/* Starts the thread for `source`, which is copied, or for the built-in source of that GPU if it is
 * NULL. Returns 0 or a negative errno. */
int gpu_feed_new(const struct sonde_gpu_source *source, unsigned gpu_index, struct gpu_feed **ret);

/* Begins a request, unless the last one is still pending. */
void gpu_feed_request(struct gpu_feed *feed);

/* Waits up to `patience_ns` for the answer to the last request. *ret are its figures; unknown if it
 * does not come in time. */
void gpu_feed_await(struct gpu_feed *feed, uint64_t patience_ns, struct gpu_figures *ret);

/* Ends the thread and frees the feed. Waits for a caller's source, because its context may be freed
 * afterwards; a thread whose driver hangs is detached, and frees the feed later. NULL is allowed.
 */
void gpu_feed_close(struct gpu_feed *feed);

/* Frees the feed in a child after a fork, where the thread does not exist. */
void gpu_feed_free_after_fork(struct gpu_feed *feed);
