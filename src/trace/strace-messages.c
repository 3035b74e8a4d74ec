#include "trace/strace-messages.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/utf8.h"

#define MARK "strace: "

static bool has_text(const char *bytes, size_t length, const char *text)
{
    return memmem(bytes, length, text, strlen(text)) != NULL;
}

static bool begins_with(const char *bytes, size_t length, const char *text)
{
    return length >= strlen(text) && memcmp(bytes, text, strlen(text)) == 0;
}

/* "strace: Process 916 attached", "… attached with 8 threads". */
static bool is_attachment(const char *bytes, size_t length, pid_t pid)
{
    char words[64];

    snprintf(words, sizeof(words), MARK "Process %d attached", (int)pid);
    return begins_with(bytes, length, words);
}

/* "strace: attach: ptrace(PTRACE_SEIZE, 916): Operation not permitted". */
static enum strace_news news_of(const char *bytes, size_t length, pid_t pid)
{
    if (is_attachment(bytes, length, pid))
        return STRACE_ATTACHED;
    if (!begins_with(bytes, length, MARK) || has_text(bytes, length, " attached") ||
        has_text(bytes, length, " detached"))
        return STRACE_SILENT;
    if (has_text(bytes, length, "No such process"))
        return STRACE_GONE;
    if (has_text(bytes, length, "not permitted") || has_text(bytes, length, "Permission denied"))
        return STRACE_REFUSED;
    /* Errors name their subject; what remains are remarks ("strace: Exit of unknown pid 9
     * ignored").
     */
    return has_text(bytes, length, "ptrace(") || has_text(bytes, length, "attach") ? STRACE_FAILED
                                                                                   : STRACE_SILENT;
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
