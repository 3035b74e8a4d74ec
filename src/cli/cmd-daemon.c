#include <errno.h>
#include <grp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/load-config.h"
#include "config/paths.h"
#include "daemon/daemon.h"

/* Only the daemon needs the group to exist; other verbs do not check it. */
static int check_group(const struct config *config, struct config_errors *errors)
{
    const struct access_config *access = &config->daemon_access;
    _cleanup_text_ struct text problem = {0};

    if (access->kind != ACCESS_GROUP || getgrnam(access->group))
        return 0;
    text_append_string(&problem, "'group:");
    text_append_visible(&problem, access->group, strlen(access->group), SIZE_MAX);
    text_append_string(&problem, "': no such group");
    config_errors_add_key(errors, config, "daemon.access", text_string(&problem));
    return -EINVAL;
}

static int load(const struct command_context *context, bool again, struct config **ret,
                struct config_errors *errors)
{
    _cleanup_config_ struct config *config = NULL;

    int r = find_config(context, again, &config, errors);
    if (r == 0)
        r = check_group(config, errors);
    if (r == 0)
        r = resolve_paths(context, config);
    if (r == 0)
        *ret = TAKE_PTR(config);
    return r;
}

static int load_again(void *context, struct config **ret, struct config_errors *errors)
{
    return load(context, true, ret, errors);
}

static int report_no_state_dir(int error)
{
    log_error("daemon: %s", error == -ENOENT ? "no home directory; set HOME, or use --state-dir"
                                             : strerror(-error));
    return 1;
}

static int run(const struct command_context *context, struct arguments *arguments)
{
    _cleanup_config_errors_ struct config_errors errors = {0};
    _cleanup_config_ struct config *config = NULL;
    _cleanup_free_ char *socket_path = NULL;
    struct command_context own = *context;

    if (arguments->count)
        return command_misused(&command_daemon, "unexpected argument '%s'",
                               SHOWN(arguments->words[0]));
    int r = load(&own, false, &config, &errors);
    if (r < 0 && errors.count) {
        load_config_report(&errors, r);
        return EXIT_USAGE;
    }
    if (r == 0)
        r = paths_socket(context->socket_path, context->state_dir, getenv, geteuid(), &socket_path);
    if (r < 0)
        return report_no_state_dir(r);
    if (!config->enabled) {
        log_note("daemon: not started, because profiler.enabled is false");
        return 0;
    }
    if (!isatty(STDERR_FILENO))
        log_use_fields();
    const struct daemon_options options = {
        .socket_path = socket_path, .load_config = load_again, .context = &own};
    return daemon_run(&options, TAKE_PTR(config)) < 0 ? 1 : 0;
}

const struct command command_daemon = {
    .name = "daemon",
    .summary = "Monitor all processes and record all jobs, in the foreground.",
    .usage = "daemon [--config FILE] [--state-dir DIR] [--socket PATH]",
    .details =
        "Takes a snapshot every profiler.interval_seconds, stores the processes that\n"
        "profiler.scope selects, detects anomalies, and answers requests on the socket\n"
        "(docs/RPC.md). Deletes old data as retention defines. SIGHUP reloads the configuration.\n"
        "SIGTERM and SIGINT end the daemon; jobs continue, and the next daemon adopts them.\n"
        "The log on stderr has one line per message, as key=value fields unless stderr is a\n"
        "terminal.\n",
    .run = run,
};
