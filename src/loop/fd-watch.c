#include "loop/fd-watch.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"

struct fd_watch {
    uv_poll_t poll;
    int fd;
    bool owns_fd;
    fd_watch_fn on_readable;
    void *context;
};

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct fd_watch *watch = poll->data;

    if (status == 0 && (events & UV_READABLE))
        watch->on_readable(watch->context, watch->fd);
}

static void on_closed(uv_handle_t *handle)
{
    struct fd_watch *watch = handle->data;

    if (watch->owns_fd)
        close_fd(watch->fd);
    free(watch);
}

int fd_watch_start(uv_loop_t *loop, int fd, bool owns_fd, fd_watch_fn on_readable, void *context,
                   struct fd_watch **ret)
{
    struct fd_watch *watch = calloc(1, sizeof(*watch));
    if (!watch)
        return -ENOMEM;

    *watch = (struct fd_watch){
        .fd = fd, .owns_fd = owns_fd, .on_readable = on_readable, .context = context};
    int r = uv_poll_init(loop, &watch->poll, fd); /* libuv's errors are negative errnos here */
    if (r < 0) {
        free(watch);
        return r;
    }
    watch->poll.data = watch;
    r = fd_watch_resume(watch);
    if (r < 0) {
        watch->owns_fd = false;
        fd_watch_close(watch);
        return r;
    }
    *ret = watch;
    return 0;
}

void fd_watch_close(struct fd_watch *watch)
{
    if (watch)
        uv_close((uv_handle_t *)&watch->poll, on_closed);
}

void fd_watch_pause(struct fd_watch *watch)
{
    uv_poll_stop(&watch->poll);
}

int fd_watch_resume(struct fd_watch *watch)
{
    return uv_poll_start(&watch->poll, UV_READABLE, on_poll);
}
