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

static int ask(struct client *client, struct arena *arena, struct daemon_status *ret)
{
    struct decode_error error = {""};
    struct rpc_reply reply;

    if (client_call(client, "daemon.status", NULL, arena, &reply) < 0) {
        log_error("status: %s", client_strerror(client));
        return 1;
    }
    if (reply.error) {
        log_error("status: the daemon at '%s' does not tell: %s", client_socket_path(client),
                  reply.message);
        return 1;
    }
    if (record_decode(&daemon_status_record, reply.result, reply.result_length, arena, ret,
                      &error) < 0) {
        log_error("status: the daemon at '%s' answers what this sonde does not understand (%s)",
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
        return command_misused(&command_status, "takes no words, found '%s'", arguments->words[0]);
    int status = open_client(&command_status, context, &client);
    if (status == 0)
        status = ask(client, &arena, &daemon_status);
    return status ? status : print(arguments, &daemon_status);
}

static const struct command_option options[] = {
    {"json", 0, NULL, "a DaemonStatus as JSON"},
};

const struct command command_status = {
    .name = "status",
    .summary = "Tell how the daemon is doing, and how exact it is.",
    .usage = "status [--json]",
    .details = "Shows what the daemon sees and how, what is exact and what is not, what it costs,\n"
               "and what it has lost. Exit status 1 if no daemon answers.\n",
    .options = options,
    .option_count = ARRAY_SIZE(options),
    .run = run,
};
