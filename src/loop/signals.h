/* Signals as events, with who sent them; and the signal state that a child must find as if sonde
 * had not been there. */
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

/* Takes the signals over: saves how they were, blocks all that can be read as events, makes SIGCHLD
 * ordinary (an inherited "ignore" would make children vanish unreaped) and ignores SIGPIPE and
 * SIGXFSZ. */
void signals_take_over(struct signal_state *ret_original);

/* In a child, before exec: everything as it was. Only async-signal-safe calls. */
void signals_restore(const struct signal_state *original);

struct signal_watch;
typedef void (*signal_fn)(void *context, const struct signalfd_siginfo *info);

/* Hands over every signal that signals_take_over() has blocked. 0 or a negative errno. */
int signal_watch_start(uv_loop_t *loop, signal_fn on_signal, void *context,
                       struct signal_watch **ret);
void signal_watch_close(struct signal_watch *watch);

/* Stops this process with `stop_signal` (SIGTSTP, SIGTTIN, SIGTTOU) as if it had never been
 * blocked; returns true when it is continued. `is_wanted` (NULL: always) is asked when the stop is
 * on its way, and a SIGCONT that comes after that takes it back, so that none is missed: false if
 * the answer was no. */
bool signals_stop_self(int stop_signal, bool (*is_wanted)(void *context), void *context);
