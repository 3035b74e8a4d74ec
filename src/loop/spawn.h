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

/* Where a child has failed, instead of executing its program. */
enum spawn_step {
    SPAWN_STEP_EXEC,
    SPAWN_STEP_USER, /* it could not become that */
    SPAWN_STEP_FILE, /* it could not make that */
    SPAWN_STEP_OTHER,
};

struct spawn_report {
    enum spawn_step step;
    int error; /* errno */
};

/* Whether it has failed; waits if the descriptor does. */
bool spawn_read_report(int fd, struct spawn_report *ret);

struct spawn_user {
    uid_t uid;
    gid_t gid;
};

struct spawn_helper_options {
    const char *const *argv;       /* argv[0] is an absolute path */
    const struct spawn_user *user; /* NULL: ours */
    int stdout_fd;                 /* -1: nothing is to be heard of it */
    int stderr_fd;
    /* A file for its stdout instead, that is made by the rights of its user: it must not be there
     * already, and no link on the way to it is followed. NULL: none. */
    const char *stdout_path;
    uint64_t file_max_bytes; /* of any file that it writes; 0: as large as it likes */
    int death_signal;        /* what it gets when the thread that started it is gone */
};

/* Starts a program for our own use: in a session of its own, in "/", with nothing on stdin, no
 * descriptors but the standard ones, ordinary signals, no core dumps, and an environment that no
 * one can have prepared. It is not waited for, not even until it has executed its program: it may
 * belong to somebody else by then, who can stop it. Its report can be read once it has ended. 0 or
 * a negative errno. */
int spawn_helper(const struct spawn_helper_options *options, pid_t *ret_pid, int *ret_report_fd);
