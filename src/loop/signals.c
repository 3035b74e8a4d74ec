#include "loop/signals.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "loop/fd-watch.h"

struct signal_watch {
    struct fd_watch *watch;
    signal_fn on_signal;
    void *context;
};

/* Faults of sonde itself and its CPU time limit keep their default effect. SIGXFSZ and SIGPIPE are
 * ignored, because the failed write returns an error. */
static void fill_watched(sigset_t *set)
{
    static const int not_watched[] = {SIGSEGV, SIGBUS, SIGFPE,  SIGILL,  SIGTRAP,
                                      SIGABRT, SIGSYS, SIGXCPU, SIGXFSZ, SIGPIPE};

    sigfillset(set);
    for (size_t i = 0; i < ARRAY_SIZE(not_watched); i++)
        sigdelset(set, not_watched[i]);
}

void signals_take_over(struct signal_state *ret_original)
{
    sigset_t watched;

    sigemptyset(&ret_original->ignored);
    for (int number = 1; number < NSIG; number++) {
        struct sigaction action;
        if (sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN)
            sigaddset(&ret_original->ignored, number);
    }
    fill_watched(&watched);
    sigprocmask(SIG_BLOCK, &watched, &ret_original->mask);

    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    /* The kernel discards an ignored signal even while it is blocked. */
    for (int number = 1; number < NSIG; number++)
        if (sigismember(&watched, number) == 1 && sigismember(&ret_original->ignored, number) == 1)
            signal(number, SIG_DFL);
}

void signals_restore(const struct signal_state *original)
{
    for (int number = 1; number < NSIG; number++) {
        int is_ignored = sigismember(&original->ignored, number);
        if (is_ignored == 1 || number == SIGPIPE || number == SIGXFSZ)
            signal(number, is_ignored == 1 ? SIG_IGN : SIG_DFL);
    }
    sigprocmask(SIG_SETMASK, &original->mask, NULL);
}

static void on_readable(void *context, int fd)
{
    struct signal_watch *watch = context;
    struct signalfd_siginfo info;

    /* Only one signal per call: the handler may close the watch. */
    if (read(fd, &info, sizeof(info)) == sizeof(info))
        watch->on_signal(watch->context, &info);
}

int signal_watch_start(uv_loop_t *loop, signal_fn on_signal, void *context,
                       struct signal_watch **ret)
{
    sigset_t watched;
    _cleanup_free_ struct signal_watch *watch = calloc(1, sizeof(*watch));
    if (!watch)
        return -ENOMEM;

    fill_watched(&watched);
    _cleanup_close_ int fd = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0)
        return -errno;
    *watch = (struct signal_watch){.on_signal = on_signal, .context = context};
    int r = fd_watch_start(loop, fd, true, on_readable, watch, &watch->watch);
    if (r < 0)
        return r;
    TAKE_FD(fd);
    *ret = TAKE_PTR(watch);
    return 0;
}

void signal_watch_close(struct signal_watch *watch)
{
    if (!watch)
        return;
    fd_watch_close(watch->watch);
    free(watch);
}

static void discard_pending(const sigset_t *set)
{
    const struct timespec at_once = {0};

    while (sigtimedwait(set, NULL, &at_once) > 0)
        ;
}

bool signals_stop_self(int stop_signal, bool (*is_wanted)(void *context), void *context)
{
    sigset_t set, pending;

    /* Continued before it has stopped: a stop signal would discard the pending SIGCONT. */
    if (sigpending(&pending) == 0 && sigismember(&pending, SIGCONT) == 1)
        return true;
    sigemptyset(&set);
    sigaddset(&set, stop_signal);
    /* The terminal's signal may still be pending: it would stop the process a second time. */
    discard_pending(&set);
    raise(stop_signal);
    if (is_wanted && !is_wanted(context)) {
        discard_pending(&set);
        return false;
    }
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return true;
}
