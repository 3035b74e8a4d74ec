/* Decides what `sonde run` does with a signal that it receives. Pure functions. */
#pragma once

#include <stdbool.h>

enum signal_action {
    SIGNAL_IGNORE,
    SIGNAL_REPORT,      /* only record it: the terminal sent it to the command as well */
    SIGNAL_PASS_ON,     /* to the command */
    SIGNAL_STOP_SELF,   /* sonde stops, like any program */
    SIGNAL_END_WAITING, /* sonde ends; the processes that the command left continue */
};

struct run_signal_state {
    bool command_ended;     /* sonde only waits for the processes that it left */
    bool was_ignored;       /* the signal, when sonde was started */
    bool is_session_leader; /* sonde itself */
    bool was_continued;     /* the command stopped with sonde, and runs again */
};

/* Returns whether a terminal may have sent this signal, so that the group of sonde and the command
 * has it. Other signals from the kernel, such as an alarm that was set before sonde was executed,
 * are meant for the command. `code` is si_code.
 *
 * The list is longer than that of the kernel collector (kernel-events.c), which names the terminal
 * as the sender of a signal only if nothing else can be. */
bool signal_is_from_terminal(int number, int code);
/* Returns whether it is one of SIGTSTP, SIGTTIN and SIGTTOU. */
bool signal_is_terminal_stop(int number);

enum signal_action signal_action_of(int number, int code, const struct run_signal_state *state);
