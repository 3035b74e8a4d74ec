/* Watches a descriptor for input in the loop. All timer, signal and socket descriptors that sonde
 * opens itself use it. */
#pragma once

#include <stdbool.h>
#include <uv.h>

struct fd_watch;

typedef void (*fd_watch_fn)(void *context, int fd);

/* Calls `on_readable` whenever the descriptor is readable. With `owns_fd`, the watch owns the
 * descriptor after success. Returns 0 or a negative errno. */
int fd_watch_start(uv_loop_t *loop, int fd, bool owns_fd, fd_watch_fn on_readable, void *context,
                   struct fd_watch **ret);
/* Asynchronous: libuv's close callback frees the watch and closes the descriptor if the watch owns
 * it. NULL is allowed. */
void fd_watch_close(struct fd_watch *watch);

/* Stop and restart watching; the descriptor stays open. */
void fd_watch_pause(struct fd_watch *watch);
int fd_watch_resume(struct fd_watch *watch);
