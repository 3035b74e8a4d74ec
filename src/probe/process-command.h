/* The command line of a process, cached between readings, as read and redacted.
 *
 * It is read at the first reading, after an exec (a process between fork and exec still has its
 * parent's), and as long as none was found. A zombie, or an exiting process that has already
 * released its memory, keeps its last command line. It is redacted once after each exec, and again
 * only for other words. A zero-initialised struct is empty and valid. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "model/redact.h"
#include "probe/proc-stat.h"

struct process_command {
    char *text;  /* as read; NULL: not read yet */
    char *shown; /* redacted; NULL: equal to `text` */
    bool is_redacted;
    unsigned version; /* of the words that it was redacted with */
    char name[PROC_NAME_SIZE];
    uint64_t arg_start;
    bool is_named_only; /* no command line was found yet: read again */
};

/* Identifies the present command line: the kernel's short name and the address of the arguments. */
struct process_title {
    pid_t pid;
    const char *name;
    uint64_t arg_start; /* 0: unknown, or the process has no memory */
    char state;
    bool is_kernel_thread;
    bool is_cut; /* `name` may be truncated: names of kernel threads can be longer */
};

void process_command_done(struct process_command *command);

/* Returns whether the cached text must be read again. */
bool process_command_is_stale(const struct process_command *command,
                              const struct process_title *title);

/* Reads the command line below `root_fd`, a proc filesystem. Returns 0 or -ENOMEM. */
int process_command_refresh(struct process_command *command, int root_fd,
                            const struct process_title *title);

/* Returns the redacted command line in *ret, valid until the next call or refresh. `redaction`
 * NULL: the command line as read. Returns 0 or -ENOMEM. */
int process_command_show(struct process_command *command, const struct redaction *redaction,
                         const char **ret);
