#include "trace/strace-command.h"

#include <stdio.h>
#include <string.h>

#include "base/macros.h"

static void set_arguments(struct strace_command *command, pid_t pid, const char *const *arguments,
                          size_t count)
{
    snprintf(command->pid, sizeof(command->pid), "%d", (int)pid);
    command->argv[0] = command->program;
    memcpy(&command->argv[1], arguments, count * sizeof(*arguments));
    command->argv[count + 1] = "-p";
    command->argv[count + 2] = command->pid;
    command->argv[count + 3] = NULL;
}

void strace_command_summary(struct strace_command *command, pid_t pid)
{
    static const char *const arguments[] = {"-c", "-w", "-f"};

    set_arguments(command, pid, arguments, ARRAY_SIZE(arguments));
}

/* Messages such as "attached" go to stderr; the calls go to the file of -o. */
void strace_command_full(struct strace_command *command, pid_t pid)
{
    static const char *const arguments[] = {"-f", "-tt", "-o", "/dev/stdout"};

    set_arguments(command, pid, arguments, ARRAY_SIZE(arguments));
}

void strace_command_stream(struct strace_command *command, pid_t pid)
{
    static const char *const arguments[] = {"-f", "-tt"};

    set_arguments(command, pid, arguments, ARRAY_SIZE(arguments));
}
