/* `sonde daemon` without its words on the command line: samples every process, keeps jobs, answers
 * on a socket, until it is told to stop. */
#pragma once

#include "config/config.h"

struct daemon_options {
    const char *socket_path;
    const char *state_dir; /* where its lock is */

    /* Loads the configuration, with its paths resolved: at the start, and when it is to be read
     * again. 0 or a negative errno, with lines in `errors` where there are any. */
    int (*load_config)(void *context, struct config **ret, struct config_errors *errors);
    void *context;
};

/* Runs until SIGTERM or SIGINT. Takes `config` over. 0, or a negative errno once it was said why it
 * could not start: -EWOULDBLOCK if another daemon is there. */
int daemon_run(const struct daemon_options *options, struct config *config);
