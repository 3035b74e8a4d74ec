#include "probe/process-command.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fd-io.h"
#include "model/process.h"
#include "probe/proc-cmdline.h"

void process_command_done(struct process_command *command)
{
    free(command->text);
    *command = (struct process_command){0};
}

bool process_command_is_stale(const struct process_command *command,
                              const struct process_title *title)
{
    if (!command->text)
        return true;
    if (title->state == 'Z' || (command->arg_start && !title->arg_start))
        return false;
    return command->is_named_only || command->arg_start != title->arg_start ||
           strcmp(command->name, title->name) != 0;
}

static ssize_t read_file(int root_fd, pid_t pid, const char *name, char *into, size_t size)
{
    char path[32];

    snprintf(path, sizeof(path), "%d/%s", (int)pid, name);
    _cleanup_close_ int fd = openat(root_fd, path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd_read_start(fd, into, size);
}

/* The short name, or that of a kernel thread in full. */
static void name_only(int root_fd, const struct process_title *title, char *into, size_t size)
{
    char name[PROC_NAME_SIZE];
    ssize_t length = title->is_kernel_thread && title->is_cut
                         ? read_file(root_fd, title->pid, "comm", name, sizeof(name) - 1)
                         : 0;

    if (length > 0 && name[length - 1] == '\n')
        length--;
    if (length > 0)
        name[length] = '\0';
    proc_cmdline_from_name(length > 0 ? name : title->name, into, size);
}

int process_command_refresh(struct process_command *command, int root_fd,
                            const struct process_title *title)
{
    char raw[COMMAND_MAX_BYTES + 16], text[COMMAND_MAX_BYTES + 1];
    ssize_t raw_length =
        title->is_kernel_thread ? 0 : read_file(root_fd, title->pid, "cmdline", raw, sizeof(raw));
    size_t length = 0;

    if (raw_length > 0)
        length = proc_cmdline_parse(raw, (size_t)raw_length, text, sizeof(text));
    bool is_named_only = length == 0 && !title->is_kernel_thread;
    if (length == 0)
        name_only(root_fd, title, text, sizeof(text));

    char *copy = strdup(text);
    if (!copy)
        return -ENOMEM;
    free(command->text);
    command->text = copy;
    command->is_named_only = is_named_only;
    command->arg_start = title->arg_start;
    snprintf(command->name, sizeof(command->name), "%s", title->name);
    return 0;
}
