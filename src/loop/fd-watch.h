/* Watches a descriptor for input in the loop: the one way in which timers, signals and sockets of
 * our own come in.
 *
 * The watch is freed in libuv's close callback, so it ends with fd_watch_close(), which also closes
 * the descriptor if it was given away. */
#pragma once

#include <stdbool.h>
#include <uv.h>

struct fd_watch;

typedef void (*fd_watch_fn)(void *context, int fd);

/* On success, and with `owns_fd`, the descriptor belongs to the watch. 0 or a negative errno. */
int fd_watch_start(uv_loop_t *loop, int fd, bool owns_fd, fd_watch_fn on_readable, void *context,
                   struct fd_watch **ret);
void fd_watch_close(struct fd_watch *watch);

/* Stops and starts looking, with the descriptor left open. */
void fd_watch_pause(struct fd_watch *watch);
int fd_watch_resume(struct fd_watch *watch);
