#include "probe/process-command.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "model/process.h"
#include "probe/proc-cmdline.h"
#include "probe/proc-file.h"

void process_command_done(struct process_command *command)
{
    free(command->text);
    free(command->shown);
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

/* Writes the short name, or the full name of a kernel thread. */
static void format_name(int root_fd, const struct process_title *title, char *into, size_t size)
{
    char name[PROC_NAME_SIZE];
    ssize_t length = title->is_kernel_thread && title->is_cut
                         ? proc_file_read(root_fd, title->pid, "comm", name, sizeof(name) - 1)
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
    ssize_t raw_length = title->is_kernel_thread
                             ? 0
                             : proc_file_read(root_fd, title->pid, "cmdline", raw, sizeof(raw));
    size_t length = 0;

    if (raw_length > 0)
        length = proc_cmdline_parse(raw, (size_t)raw_length, text, sizeof(text));
    bool is_named_only = length == 0 && !title->is_kernel_thread;
    if (length == 0)
        format_name(root_fd, title, text, sizeof(text));

    /* Without a command line, the name is read at every reading. */
    if (!command->text || strcmp(command->text, text) != 0) {
        char *copy = strdup(text);
        if (!copy)
            return -ENOMEM;
        free(command->text);
        command->text = copy;
        command->is_redacted = false;
    }
    command->is_named_only = is_named_only;
    command->arg_start = title->arg_start;
    snprintf(command->name, sizeof(command->name), "%s", title->name);
    return 0;
}

static int redact(struct process_command *command, const struct redaction *redaction)
{
    _cleanup_text_ struct text hidden = {0};
    char *shown = NULL;

    int r = redaction->words ? redact_text(command->text, redaction->words, &hidden) : 0;
    if (r > 0 && !(shown = strdup(text_string(&hidden))))
        r = -ENOMEM;
    if (r < 0)
        return r;
    free(command->shown);
    command->shown = shown;
    command->is_redacted = true;
    command->version = redaction->version;
    return 0;
}

int process_command_show(struct process_command *command, const struct redaction *redaction,
                         const char **ret)
{
    int r = 0;

    if (redaction && (!command->is_redacted || command->version != redaction->version))
        r = redact(command, redaction);
    if (r == 0)
        *ret = redaction && command->shown ? command->shown : command->text;
    return r;
}
