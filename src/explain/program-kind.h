/* Kinds of programs whose exit status has a known relation to those of their children. Pure. */
#pragma once

#include <stdbool.h>

/* Returns whether the program exists to run others and has a status of its own for their failures
 * (make, cc, xargs). Programs that end with the status of their child need not be known. NULL:
 * false. */
bool program_is_runner(const char *command);

/* Returns whether the program is a shell, which ends with the status of its last command. An
 * unknown program (NULL) counts as a shell, and so does `[name]`: without its command line, a
 * script has its own name, not that of its shell. */
bool program_is_shell(const char *command);
