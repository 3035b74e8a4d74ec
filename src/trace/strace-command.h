/* The command lines of strace. */
#pragma once

#include <limits.h>
#include <sys/types.h>

#define STRACE_ARGUMENTS_MAX 12

/* The arguments point into this struct: it must not be moved while they are used. */
struct strace_command {
    char program[PATH_MAX]; /* an absolute path, set by the caller */
    char pid[16];
    const char *argv[STRACE_ARGUMENTS_MAX];
};

/* `strace -c -w -f -p PID`: counts calls and their wall time in the process and its forks, and
 * prints a table at the end. */
void strace_command_summary(struct strace_command *command, pid_t pid);
/* `strace -f -tt -p PID`: prints each call, to standard output (full), or with its messages to
 * standard error (stream). */
void strace_command_full(struct strace_command *command, pid_t pid);
void strace_command_stream(struct strace_command *command, pid_t pid);
