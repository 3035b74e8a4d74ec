/* What strace says, piece by piece: whether it has attached, or why not; then its table. Remarks on
 * each process that it meets are passed over, so that a target may fork as often as it likes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/text.h"
#include "model/syscall-profile.h"

enum strace_news {
    STRACE_SILENT,   /* nothing of interest yet */
    STRACE_ATTACHED, /* to the process that it was told to */
    STRACE_REFUSED,  /* by the kernel, for lack of rights, or because another tracer has it */
    STRACE_GONE,     /* there is no such process any more */
    STRACE_FAILED,   /* anything else: see the words */
};

/* A table has a line for each of some 400 calls. */
#define STRACE_TABLE_MAX_BYTES (256 * 1024)
/* No line of it is longer; what is, is none of strace's. */
#define STRACE_LINE_MAX_BYTES 1024

/* Zero-initialised, but for the pid, is empty. */
struct strace_output {
    pid_t pid; /* that it is told to attach to */
    enum strace_news news;
    char words[192];   /* of a failure, cleaned */
    struct text table; /* lines that strace has not signed */
    struct text line;  /* that is not complete yet */
    bool is_overlong;  /* … and too long to be one: passed over up to its end */
    bool was_cut;      /* it said more than a table can have */
};

/* Once it has attached, that stays the news. */
void strace_output_take(struct strace_output *output, const char *bytes, size_t length);
/* All has been said: what was counted. 0, -ENODATA (there is no table) or -ENOMEM. */
int strace_output_parse(struct strace_output *output, struct syscall_profile *ret);
void strace_output_done(struct strace_output *output);
