/* Figures of a GPU, asked for in a thread of its own, so that a source that is slow, hangs, or
 * waits for a lock that the program holds (Python's) delays nothing else: its figures are unknown
 * then, and it is not asked again until it has answered. */
#pragma once

#include <stdbool.h>

#include "lib/gpu-figures.h"
#include "sonde/sonde.h"

struct gpu_feed;
struct gpu_set;

/* The GPUs of this machine. 0 or a negative errno. */
int gpu_feed_open_builtin(struct gpu_set **ret);

/* `source`, which is copied, or NULL for the built-in one, of that GPU. 0 or a negative errno. */
int gpu_feed_new(const struct sonde_gpu_source *source, unsigned gpu_index, struct gpu_feed **ret);

/* Begins a question, unless the last one is still open. */
void gpu_feed_ask(struct gpu_feed *feed);

/* What the last question was answered with, as far as the answer comes within `patience_ns`. */
void gpu_feed_answer(struct gpu_feed *feed, uint64_t patience_ns, struct gpu_figures *ret);

/* Ends the thread. A caller's source is waited for, because nobody else knows when its context may
 * go; a driver that hangs is left alone. */
void gpu_feed_close(struct gpu_feed *feed);

/* After a fork, in the child, where the thread is not. */
void gpu_feed_forget(struct gpu_feed *feed);
