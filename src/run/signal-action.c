#include "run/signal-action.h"

#include <signal.h>

bool signal_is_terminal_stop(int number)
{
    return number == SIGTSTP || number == SIGTTIN || number == SIGTTOU;
}

bool signal_is_from_terminal(int number, int code)
{
    switch (number) {
    case SIGINT:
    case SIGQUIT:
    case SIGTSTP:
    case SIGTTIN:
    case SIGTTOU:
    case SIGWINCH:
    case SIGHUP:
    case SIGCONT: return code > 0;
    default: return false;
    }
}

enum signal_action signal_action_of(int number, int code, const struct run_signal_state *state)
{
    if (state->command_ended) {
        if (state->was_ignored)
            return SIGNAL_IGNORE;
        if (signal_is_terminal_stop(number))
            return SIGNAL_STOP_SELF;
        return number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGQUIT
                   ? SIGNAL_END_WAITING
                   : SIGNAL_IGNORE;
    }
    /* A terminal signals the whole group, the command included. Only at a hangup does it signal the
     * leader of the session alone, with SIGHUP and SIGCONT. */
    bool is_for_leader = (number == SIGHUP || number == SIGCONT) && state->is_session_leader;
    if (signal_is_from_terminal(number, code) && !is_for_leader)
        return SIGNAL_REPORT;
    /* After a stop the shell continues the whole group: the command has its SIGCONT already, unless
     * only sonde was continued. */
    return number == SIGCONT && state->was_continued ? SIGNAL_IGNORE : SIGNAL_PASS_ON;
}
