/* What is known about programs whose exit status depends on the processes that they start. Pure.
 *
 * The table of conventions (program-kind.c), from the manuals of the programs:
 *
 * | program | its status | after which failure of a child | starts others after it |
 * | --- | --- | --- | --- |
 * | make | 2 | any but an answer | with -k |
 * | bmake, ninja, samu | any | any but an answer | with -k |
 * | cc, gcc, clang, rustc, collect2, … | any | any but an answer | no |
 * | cargo; go | any | rustc, …; compile, link, … | no |
 * | xargs | 123; 124; 125; 126 or 127 | exit 1 to 125; exit 255; a signal; the same | 123: yes |
 * | timeout | 124 | any: it has stopped the child | no |
 * | run-parts | 1 | any | yes |
 * | parallel | the number of failed jobs, at most 101 | any; not of its first helpers | yes |
 * | env, nice, sudo, timeout, flock, strace, cmake --build, sonde, … | the same | any | no |
 * | npm, yarn, uv, poetry, … | the same | any but an answer | no |
 * | pytest, unittest, prove, jest, mocha, ctest | of the tests; a child proves nothing | | |
 *
 * These programs fail as an answer, so their status 1 proves little: grep, diff, cmp, test, git, …
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "model/event.h"
#include "model/process.h"

enum program_kind {
    PROGRAM_OTHER,   /* may have run a child for its status */
    PROGRAM_SHELL,   /* ends with the status of its last command */
    PROGRAM_WRAPPER, /* ends with the status of its child */
    PROGRAM_RUNNER,  /* has a status of its own for failures of children */
    PROGRAM_COUNTER, /* its status is the number of its failed children */
    PROGRAM_TESTER,  /* failures of its children do not determine its status */
};

/* Returns the kind of the program of a command line that ends with this status; of `python3 -m
 * pytest` it is that of pytest. An unknown program (NULL) counts as a shell, and so does `[name]`:
 * without its command line, a script has its own name, not that of its shell. */
enum program_kind program_kind(const char *command, int64_t status);

bool program_is_shell(const char *command);

/* Returns whether it is a shell, an interpreter or another program that the tables contain. */
bool program_is_known(const char *command);

/* Writes how a script mentions the program: "work" for "/bin/sh ./work", "ls" for "ls /x". Returns
 * false if that is unknown. */
bool program_or_script(const char *command, char into[static PROGRAM_MAX_BYTES + 1]);

/* Returns whether a runner or a wrapper ends with this status if a child ended in that way. */
bool program_explains(const char *command, int64_t status, const struct process_event *child);

/* Returns whether the program may have started others after the failure that gave it this status.
 */
bool program_keeps_going(const char *command, int64_t status);

/* Returns whether the program has the -k of make, which its children inherit. */
bool program_has_letter_k(const char *command);

/* Returns whether the end of a program may be an answer, not an error: `grep` found nothing. A
 * program without a name may be any. */
bool program_may_answer(const struct process_event *end);

/* Returns what the exit status of the program means by its manual: "tests failed" for 1 of pytest;
 * NULL: it is not known to mean more than a failure. */
const char *program_status_meaning(const char *command, int64_t status);
