#include "trace/strace-command.h"

#include <stdio.h>
#include <string.h>

#include "base/macros.h"

static void set_words(struct strace_command *command, pid_t pid, const char *const *words,
                      size_t count)
{
    snprintf(command->pid, sizeof(command->pid), "%d", (int)pid);
    command->argv[0] = command->program;
    memcpy(&command->argv[1], words, count * sizeof(*words));
    command->argv[count + 1] = "-p";
    command->argv[count + 2] = command->pid;
    command->argv[count + 3] = NULL;
}

void strace_command_summary(struct strace_command *command, pid_t pid)
{
    static const char *const words[] = {"-c", "-w", "-f"};

    set_words(command, pid, words, ARRAY_SIZE(words));
}

/* Its own words, such as that it has attached, go to stderr; calls go where we say. */
void strace_command_full(struct strace_command *command, pid_t pid)
{
    static const char *const words[] = {"-f", "-tt", "-o", "/dev/stdout"};

    set_words(command, pid, words, ARRAY_SIZE(words));
}

void strace_command_stream(struct strace_command *command, pid_t pid)
{
    static const char *const words[] = {"-f", "-tt"};

    set_words(command, pid, words, ARRAY_SIZE(words));
}
