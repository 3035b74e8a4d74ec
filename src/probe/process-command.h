/* The command line of a process, as it is remembered between readings.
 *
 * It is read at first sight, again after an exec, and again while there was none: a process seen
 * between its fork and its exec still carries its parent's. One that has become a zombie, or has
 * lost its memory on the way there, keeps the one it had. Zero-initialised is empty and valid. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "probe/proc-stat.h"

struct process_command {
    char *text; /* NULL: not read yet */
    char name[PROC_NAME_SIZE];
    uint64_t arg_start;
    bool is_named_only; /* no command line was found yet: look again */
};

/* What it is read by: the kernel's short name, and where the arguments lie. */
struct process_title {
    pid_t pid;
    const char *name;
    uint64_t arg_start; /* 0: not known, or it has no memory */
    char state;
    bool is_kernel_thread;
    bool is_cut; /* the name is: those of kernel threads may be longer */
};

void process_command_done(struct process_command *command);

bool process_command_is_stale(const struct process_command *command,
                              const struct process_title *title);

/* Reads it below `root_fd`, a proc filesystem. 0 or -ENOMEM. */
int process_command_refresh(struct process_command *command, int root_fd,
                            const struct process_title *title);
