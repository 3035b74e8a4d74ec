#include "loop/ticker.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "loop/fd-watch.h"

struct ticker {
    struct fd_watch *watch;
    ticker_fn on_tick;
    void *context;
};

static void on_expired(void *context, int fd)
{
    struct ticker *ticker = context;
    uint64_t expirations;

    if (read(fd, &expirations, sizeof(expirations)) == sizeof(expirations) && expirations)
        ticker->on_tick(ticker->context, expirations - 1);
}

int ticker_start(uv_loop_t *loop, uint64_t interval_ns, ticker_fn on_tick, void *context,
                 struct ticker **ret)
{
    struct itimerspec schedule = {.it_value = ns_to_timespec(clock_mono_ns() + interval_ns),
                                  .it_interval = ns_to_timespec(interval_ns)};
    _cleanup_close_ int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    _cleanup_free_ struct ticker *ticker = calloc(1, sizeof(*ticker));

    if (!ticker)
        return -ENOMEM;
    if (fd < 0 || timerfd_settime(fd, TFD_TIMER_ABSTIME, &schedule, NULL) < 0)
        return -errno;

    *ticker = (struct ticker){.on_tick = on_tick, .context = context};
    int r = fd_watch_start(loop, fd, true, on_expired, ticker, &ticker->watch);
    if (r < 0)
        return r;
    TAKE_FD(fd);
    *ret = TAKE_PTR(ticker);
    return 0;
}

void ticker_close(struct ticker *ticker)
{
    if (!ticker)
        return;
    fd_watch_close(ticker->watch);
    free(ticker);
}
