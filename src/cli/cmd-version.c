#include <stdio.h>

#include "base/json-writer.h"
#include "cli/command.h"

static int run(const struct command_context *context _unused_, struct arguments *arguments)
{
    if (arguments->count)
        return command_misused(&command_version, "unexpected argument '%s'",
                               SHOWN(arguments->words[0]));
    if (arguments_has(arguments, "json"))
        printf("{\"version\":\"%s\"}\n", SONDE_VERSION);
    else
        printf("sonde %s\n", SONDE_VERSION);
    return 0;
}

static const struct command_option options[] = {
    {"json", 0, NULL, "Print one JSON object."},
};

const struct command command_version = {
    .name = "version",
    .summary = "Show the version, as `sonde --version` and `sonde -V` do.",
    .usage = "version [--json]",
    .options = options,
    .option_count = ARRAY_SIZE(options),
    .has_no_page = true,
    .run = run,
};
