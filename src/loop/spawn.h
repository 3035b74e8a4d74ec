/* The only spawner: of the command of `sonde run`, and of helper programs (see helper.h). */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "loop/signals.h"

/* Starts argv[0] (searched in PATH) and waits until it has been executed. The command gets the same
 * stdin, terminal, process group, signal dispositions and mask, umask, limits and environment as if
 * the parent of this process had started it. Returns 0; -ECHILD with *ret_exec_errno set if the
 * program could not be executed (the child is reaped); or another negative errno if the fork
 * failed. */
int spawn_command(char *const argv[], const struct signal_state *signals, pid_t *ret_pid,
                  int *ret_exec_errno);

/* The step at which a child failed before it executed its program. */
enum spawn_step {
    SPAWN_STEP_EXEC,
    SPAWN_STEP_USER, /* it could not change to the user */
    SPAWN_STEP_FILE, /* it could not create its output file */
    SPAWN_STEP_OTHER,
};

struct spawn_report {
    enum spawn_step step;
    int error; /* errno */
};

/* Reads the report of a child that could not execute its program. Returns false if there is none.
 * Blocks if the descriptor blocks. */
bool spawn_read_report(int fd, struct spawn_report *ret);

struct spawn_user {
    uid_t uid;
    gid_t gid;
};

struct spawn_helper_options {
    const char *const *argv;       /* argv[0] is an absolute path */
    const struct spawn_user *user; /* NULL: the user of this process */
    int stdout_fd;                 /* -1: /dev/null */
    int stderr_fd;
    /* Replaces stdout_fd: a new file for stdout, created with the rights of the helper's user. The
     * file must not exist, and no symbolic link in its path is followed. NULL: none. */
    const char *stdout_path;
    uint64_t file_max_bytes; /* limit for each file that it writes; 0: none */
    int death_signal;        /* the kernel sends it when the thread that started the helper ends */
};

/* Starts a helper program in its own session and in "/", with an empty stdin, only the standard
 * descriptors, default signals, no core dumps and a fixed environment. Does not wait for the exec,
 * because the child may already run as another user, who can stop it. After the helper has ended,
 * spawn_read_report() reads the report from *ret_report_fd, which the caller owns. Returns 0 or a
 * negative errno. */
int spawn_helper(const struct spawn_helper_options *options, pid_t *ret_pid, int *ret_report_fd);
