#include "trace/strace-messages.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/utf8.h"

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
    if (!take_signature(&bytes, &length))
        return STRACE_SILENT;
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

enum strace_news strace_messages_parse(const char *bytes, size_t length, pid_t pid, char *line,
                                       size_t capacity)
{
    const char *at = bytes, *end = bytes + length, *newline;

    for (; at < end && (newline = memchr(at, '\n', (size_t)(end - at))); at = newline + 1) {
        size_t line_length = (size_t)(newline - at);
        enum strace_news news = news_of(at, line_length, pid);
        if (news == STRACE_SILENT)
            continue;
        if (line)
            utf8_clean(line, capacity, at, line_length);
        return news;
    }
    return STRACE_SILENT;
}
