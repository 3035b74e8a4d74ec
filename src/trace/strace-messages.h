/* What strace says before its table: whether it has attached, or why not. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

enum strace_news {
    STRACE_SILENT,   /* nothing of interest yet */
    STRACE_ATTACHED, /* to the process that it was told to */
    STRACE_REFUSED,  /* by the kernel, for lack of rights, or because another tracer has it */
    STRACE_GONE,     /* there is no such process any more */
    STRACE_FAILED,   /* anything else: see the line */
};

/* Looks at whole lines only. `line` (may be NULL) gets the words that it was told by, without
 * control characters. */
enum strace_news strace_messages_parse(const char *bytes, size_t length, pid_t pid, char *line,
                                       size_t capacity);
