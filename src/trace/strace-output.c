#include "trace/strace-output.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/utf8.h"
#include "trace/strace-table.h"

static bool has_text(const char *bytes, size_t length, const char *text)
{
    return memmem(bytes, length, text, strlen(text)) != NULL;
}

/* Skips "strace: " or "/usr/bin/strace: ", the name that it was started by. Other lines of its
 * stderr are not messages of strace. */
static bool skip_name(const char **bytes, size_t *length)
{
    static const char mark[] = "strace: ";
    const char *found = memmem(*bytes, *length, mark, strlen(mark));

    if (!found || memchr(*bytes, ' ', (size_t)(found - *bytes)) ||
        (found > *bytes && found[-1] != '/'))
        return false;
    *length -= (size_t)(found - *bytes) + strlen(mark);
    *bytes = found + strlen(mark);
    return true;
}

/* "Process 916 attached", "Process 916 attached with 8 threads". */
static bool is_attachment(const char *bytes, size_t length, pid_t pid)
{
    char message[64];

    snprintf(message, sizeof(message), "Process %d attached", (int)pid);
    return length >= strlen(message) && memcmp(bytes, message, strlen(message)) == 0;
}

/* "attach: ptrace(PTRACE_SEIZE, 916): Operation not permitted", "Could not attach to process".
 * Other messages are ignored ("Exit of unknown pid 9 ignored"). */
static enum strace_status status_of(const char *bytes, size_t length, pid_t pid)
{
    if (is_attachment(bytes, length, pid))
        return STRACE_ATTACHED;
    if (!has_text(bytes, length, "attach: ") && !has_text(bytes, length, "not attach"))
        return STRACE_PENDING;
    if (has_text(bytes, length, "No such process"))
        return STRACE_GONE;
    if (has_text(bytes, length, "not permitted") || has_text(bytes, length, "Permission denied"))
        return STRACE_REFUSED;
    return STRACE_FAILED;
}

static void parse_message(struct strace_output *output, const char *bytes, size_t length)
{
    enum strace_status status = status_of(bytes, length, output->pid);

    if (status == STRACE_PENDING || output->status == STRACE_ATTACHED)
        return;
    output->status = status;
    utf8_clean(output->message, sizeof(output->message), bytes, length);
}

static void add_line(struct strace_output *output, const char *bytes, size_t length)
{
    const char *message = bytes;
    size_t message_length = length;

    if (skip_name(&message, &message_length)) {
        parse_message(output, message, message_length);
        return;
    }
    if (output->table.length + length >= STRACE_TABLE_MAX_BYTES) {
        output->was_cut = true;
        return;
    }
    text_append(&output->table, bytes, length);
    text_append_char(&output->table, '\n');
}

/* Adds a part of a line, or its end. */
static void add_part(struct strace_output *output, const char *bytes, size_t length, bool is_end)
{
    output->is_overlong |= output->line.length + length > STRACE_LINE_MAX_BYTES;
    if (!output->is_overlong)
        text_append(&output->line, bytes, length);
    if (!is_end)
        return;
    if (!output->is_overlong)
        add_line(output, text_string(&output->line), output->line.length);
    output->is_overlong = false;
    text_reset(&output->line);
}

void strace_output_add(struct strace_output *output, const char *bytes, size_t length)
{
    const char *at = bytes, *end = bytes + length, *newline;

    for (; at < end && (newline = memchr(at, '\n', (size_t)(end - at))); at = newline + 1)
        add_part(output, at, (size_t)(newline - at), true);
    add_part(output, at, (size_t)(end - at), false);
}

int strace_output_parse(struct strace_output *output, struct syscall_profile *ret)
{
    if (text_error(&output->table) < 0 || text_error(&output->line) < 0)
        return -ENOMEM;
    return strace_table_parse(text_string(&output->table), output->table.length, ret);
}

void strace_output_done(struct strace_output *output)
{
    text_done(&output->table);
    text_done(&output->line);
}
