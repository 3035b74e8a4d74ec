/* Parses the output of strace in pieces: first whether it has attached, or why not, then its table.
 * Messages about single processes are ignored, so that a target may fork any number of times. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/text.h"
#include "model/syscall-profile.h"

enum strace_status {
    STRACE_PENDING,  /* not known yet */
    STRACE_ATTACHED, /* to the requested process */
    STRACE_REFUSED,  /* by the kernel: no permission, or another tracer */
    STRACE_GONE,     /* the process is gone */
    STRACE_FAILED,   /* see the message */
};

/* A table has at most a line for each of some 400 calls. */
#define STRACE_TABLE_MAX_BYTES (256 * 1024)
/* Longer lines are skipped: strace prints none. */
#define STRACE_LINE_MAX_BYTES 1024

/* Zero-initialised, except for the pid, it is empty and valid. */
struct strace_output {
    pid_t pid; /* the target */
    enum strace_status status;
    char message[192]; /* of a failure, as clean UTF-8 */
    struct text table; /* lines without strace's name */
    struct text line;  /* the incomplete line */
    bool is_overlong;  /* that line is too long and is skipped */
    bool was_cut;      /* there was more output than a table can have */
};

/* Adds output. Once attached, the status stays. */
void strace_output_add(struct strace_output *output, const char *bytes, size_t length);
/* Parses the table at the end. Returns 0, -ENODATA (no table) or -ENOMEM. */
int strace_output_parse(struct strace_output *output, struct syscall_profile *ret);
void strace_output_done(struct strace_output *output);
