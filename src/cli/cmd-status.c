#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/open-reader.h"
#include "cli/output.h"
#include "model/record-json.h"
#include "report/status-text.h"

static int print(const struct arguments *arguments, const struct daemon_status *status)
{
    const struct report_style style = output_style(SIZE_MAX);
    _cleanup_text_ struct text out = {0};

    if (arguments_has(arguments, "json"))
        return output_json(&command_status, &daemon_status_record, status);
    daemon_status_format(status, ns_to_sec(clock_real_ns()), &style, &out);
    return output_text(&command_status, &out);
}

static int request_status(struct client *client, struct arena *arena, struct daemon_status *ret)
{
    struct decode_error error = {""};
    struct rpc_reply reply;

    if (client_call(client, "daemon.status", NULL, arena, &reply) < 0) {
        log_error("status: %s", client_strerror(client));
        return 1;
    }
    if (reply.error) {
        log_error("status: the daemon at '%s' returned an error: %s", client_socket_path(client),
                  reply.message);
        return 1;
    }
    if (record_decode(&daemon_status_record, reply.result, reply.result_length, arena, ret,
                      &error) < 0) {
        log_error(
            "status: unexpected answer from the daemon at '%s', perhaps of another version: %s",
            client_socket_path(client), error.text);
        return 1;
    }
    return 0;
}

static int run(const struct command_context *context, struct arguments *arguments)
{
    _cleanup_(client_closep) struct client *client = NULL;
    _cleanup_(arena_done) struct arena arena = {0};
    struct daemon_status daemon_status;

    if (arguments->count)
        return command_misused(&command_status, "unexpected argument '%s'",
                               SHOWN(arguments->words[0]));
    int status = open_client(&command_status, context, &client);
    if (status == 0)
        status = request_status(client, &arena, &daemon_status);
    return status ? status : print(arguments, &daemon_status);
}

static const struct command_option options[] = {
    {"json", 0, NULL, "Print a DaemonStatus as one JSON object.",
     .more = "Unknown values are null."},
};

const struct command command_status = {
    .name = "status",
    .summary = "Show the state of the daemon and how exact its figures are.",
    .usage = "status [--json]",
    .details =
        "Shows the collector, which figures are exact, what the daemon costs, and the data it\n"
        "has lost.\n"
        "Exit status: 0, 1 on failure, 2 for wrong usage, 3 if there is no daemon.\n",
    .options = options,
    .option_count = ARRAY_SIZE(options),
    .run = run,
};
