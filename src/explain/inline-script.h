/* What the text of `sh -c TEXT` or `python3 -c TEXT`, as far as the command line shows it, states
 * about the status of the shell or the interpreter. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum script_end {
    SCRIPT_UNKNOWN,     /* no text, or it states nothing */
    SCRIPT_PASSES_ON,   /* the program is its last command: it ends with the status of that */
    SCRIPT_STOPS,       /* it ends because the program failed: `|| exit 1`, check=True */
    SCRIPT_SETS_STATUS, /* it has the status as a number (`exit 2`), or a later test may have failed
                         */
};

/* Considers the text after its last mention of `program`, which has failed; NULL: all of it. Only
 * commands are mentions, not arguments. A shell stops only if each of several mentions has the
 * `|| exit`; Python only if it checks all programs that it starts, and has no `try`. `status` is
 * that of the shell or interpreter. */
enum script_end inline_script_end(const char *command, const char *program, int64_t status);
