/* `sonde daemon` without its command line: samples every process, tracks jobs and answers on a
 * socket until it is stopped. */
#pragma once

#include "config/config.h"

struct daemon_options {
    const char *socket_path;

    /* Loads the configuration with resolved paths, at the start and at each reload. Returns 0 or a
     * negative errno, with details in `errors` if there are any. */
    int (*load_config)(void *context, struct config **ret, struct config_errors *errors);
    void *context;
};

/* Runs until SIGTERM or SIGINT. Takes ownership of `config`. Returns 0, or a negative errno after
 * it has logged why it could not start; -EWOULDBLOCK if another daemon is running. */
int daemon_run(const struct daemon_options *options, struct config *config);
