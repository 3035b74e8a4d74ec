/* The one spawner: of the command of `sonde run`, and of helper programs (see helper.h). */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "loop/signals.h"

/* Starts argv[0] (looked up in PATH) and waits until it has been executed. It finds everything as
 * if our parent had started it: stdin, the terminal, the process group, signal dispositions and
 * mask, umask, limits, environment. 0; -ECHILD with *ret_exec_errno set if the program could not be
 * executed (the child is reaped); or another negative errno if no child could be made. */
int spawn_command(char *const argv[], const struct signal_state *signals, pid_t *ret_pid,
                  int *ret_exec_errno);

struct spawn_user {
    uid_t uid;
    gid_t gid;
};

struct spawn_helper_options {
    const char *const *argv;       /* argv[0] is an absolute path */
    const struct spawn_user *user; /* NULL: ours */
    int stdout_fd;                 /* -1: nothing is to be heard of it */
    int stderr_fd;
    /* A file for its stdout instead, that is made here, by the rights of its user: one that is
     * there already, or a link, is -ECHILD with EEXIST. NULL: none. */
    const char *stdout_path;
    uint64_t file_max_bytes; /* of any file that it writes; 0: as large as it likes */
    int death_signal;        /* what it gets when the thread that started it is gone */
};

/* Starts a program for our own use: in a session of its own, in "/", with nothing on stdin, no
 * descriptors but the standard ones, ordinary signals, no core dumps, and an environment that no
 * one can have prepared. As spawn_command() otherwise. */
int spawn_helper(const struct spawn_helper_options *options, pid_t *ret_pid, int *ret_exec_errno);
