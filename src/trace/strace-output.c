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

/* Steps over "strace: ", or "/usr/bin/strace: ": it signs by the name that it was started by. What
 * else is in its stderr is not its own word. */
static bool take_signature(const char **bytes, size_t *length)
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
    char words[64];

    snprintf(words, sizeof(words), "Process %d attached", (int)pid);
    return length >= strlen(words) && memcmp(bytes, words, strlen(words)) == 0;
}

/* "attach: ptrace(PTRACE_SEIZE, 916): Operation not permitted", "Could not attach to process". What
 * speaks of something else is a remark ("Exit of unknown pid 9 ignored"). */
static enum strace_news news_of(const char *bytes, size_t length, pid_t pid)
{
    if (is_attachment(bytes, length, pid))
        return STRACE_ATTACHED;
    if (!has_text(bytes, length, "attach: ") && !has_text(bytes, length, "not attach"))
        return STRACE_SILENT;
    if (has_text(bytes, length, "No such process"))
        return STRACE_GONE;
    if (has_text(bytes, length, "not permitted") || has_text(bytes, length, "Permission denied"))
        return STRACE_REFUSED;
    return STRACE_FAILED;
}

static void take_remark(struct strace_output *output, const char *bytes, size_t length)
{
    enum strace_news news = news_of(bytes, length, output->pid);

    if (news == STRACE_SILENT || output->news == STRACE_ATTACHED)
        return;
    output->news = news;
    utf8_clean(output->words, sizeof(output->words), bytes, length);
}

static void take_line(struct strace_output *output, const char *bytes, size_t length)
{
    const char *signed_bytes = bytes;
    size_t signed_length = length;

    if (take_signature(&signed_bytes, &signed_length)) {
        take_remark(output, signed_bytes, signed_length);
        return;
    }
    if (output->table.length + length >= STRACE_TABLE_MAX_BYTES) {
        output->was_cut = true;
        return;
    }
    text_append(&output->table, bytes, length);
    text_append_char(&output->table, '\n');
}

/* The rest of a line, or a part of it. */
static void take_part(struct strace_output *output, const char *bytes, size_t length, bool is_end)
{
    output->is_overlong |= output->line.length + length > STRACE_LINE_MAX_BYTES;
    if (!output->is_overlong)
        text_append(&output->line, bytes, length);
    if (!is_end)
        return;
    if (!output->is_overlong)
        take_line(output, text_string(&output->line), output->line.length);
    output->is_overlong = false;
    text_reset(&output->line);
}

void strace_output_take(struct strace_output *output, const char *bytes, size_t length)
{
    const char *at = bytes, *end = bytes + length, *newline;

    for (; at < end && (newline = memchr(at, '\n', (size_t)(end - at))); at = newline + 1)
        take_part(output, at, (size_t)(newline - at), true);
    take_part(output, at, (size_t)(end - at), false);
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
