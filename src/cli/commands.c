#include "cli/commands.h"

#include <string.h>

const struct command *const commands[] = {
    &command_run,    &command_top,    &command_ps,      &command_jobs,     &command_report,
    &command_events, &command_diff,   &command_analyze, &command_estimate, &command_admit,
    &command_daemon, &command_status, &command_config,  &command_version,
};
const size_t command_count = ARRAY_SIZE(commands);

const struct command_option common_options[] = {
    {"config", 0, "FILE", "Read the configuration from FILE."},
    {"state-dir", 0, "DIR", "Keep state in DIR (or $SONDE_STATE_DIR).",
     .more = "Such a sonde is private: its daemon listens at DIR/sonde.sock, and verbs connect to "
             "no other daemon."},
    {"socket", 0, "PATH", "Connect to the daemon at PATH (or $SONDE_SOCKET).",
     .more = "Verbs then connect to no other daemon."},
    {"help", 'h', NULL, "Show help for the verb."},
};
const size_t common_option_count = ARRAY_SIZE(common_options);

const struct command *commands_find(const char *name)
{
    for (size_t i = 0; i < command_count; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}
