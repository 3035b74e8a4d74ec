/* Signals as events with their sender. Also saves and restores the signal state of this process, so
 * that a command starts with the state that it would have without sonde. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <sys/signalfd.h>
#include <uv.h>

/* The mask and the ignored signals that this process was started with. */
struct signal_state {
    sigset_t mask;
    sigset_t ignored;
};

/* Saves the signal state, blocks all signals that are read as events and sets those among them that
 * were ignored to their default (the kernel discards ignored signals, and an ignored SIGCHLD makes
 * children vanish unreaped). Ignores SIGPIPE and SIGXFSZ. */
void signals_take_over(struct signal_state *ret_original);

/* Restores the saved state in a child, before exec. Uses only async-signal-safe calls. */
void signals_restore(const struct signal_state *original);

struct signal_watch;
typedef void (*signal_fn)(void *context, const struct signalfd_siginfo *info);

/* Calls `on_signal` for every signal that signals_take_over() has blocked. Returns 0 or a negative
 * errno. */
int signal_watch_start(uv_loop_t *loop, signal_fn on_signal, void *context,
                       struct signal_watch **ret);
/* Stops the watch and frees it. NULL is allowed. `on_signal` may call it. */
void signal_watch_close(struct signal_watch *watch);

/* Stops this process with `stop_signal` (SIGTSTP, SIGTTIN, SIGTTOU) as if the signal had never been
 * blocked. Returns true after the process was continued. `is_wanted` (NULL: always true) is called
 * when the stop signal is already pending; if it returns false, the stop is cancelled and the
 * function returns false. A SIGCONT that arrives after that check cancels the pending stop, so that
 * none is missed. */
bool signals_stop_self(int stop_signal, bool (*is_wanted)(void *context), void *context);
