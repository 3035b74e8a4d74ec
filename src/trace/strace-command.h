/* The command lines of strace. */
#pragma once

#include <limits.h>
#include <sys/types.h>

#define STRACE_WORDS_MAX 12

/* The words point into this very struct: it must not be moved while they are used. */
struct strace_command {
    char program[PATH_MAX]; /* an absolute path, from whoever has found it */
    char pid[16];
    const char *argv[STRACE_WORDS_MAX];
};

/* `strace -c -w -f -p PID`: counts calls and the wall time that they take, in the process and all
 * that it forks, and prints a table when it ends. */
void strace_command_summary(struct strace_command *command, pid_t pid);
/* `strace -f -tt -p PID`: each call as it happens, to its standard output; or all that it has to
 * say to its standard error. */
void strace_command_full(struct strace_command *command, pid_t pid);
void strace_command_stream(struct strace_command *command, pid_t pid);
