#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/charset.h"
#include "base/fd-io.h"
#include "base/json-writer.h"
#include "base/log.h"
#include "base/macros.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/load-config.h"
#include "config/paths.h"

static int print(struct text *out)
{
    int r = text_error(out);

    if (r == 0)
        r = fd_write_all(STDOUT_FILENO, out->bytes, out->length);
    if (r == 0 || r == -EPIPE) /* a reader that ended early is not a failure */
        return EXIT_SUCCESS;
    log_error("config: cannot write to standard output: %s", strerror(-r));
    return EXIT_FAILURE;
}

/* `file` NULL: there is no configuration file. */
static void format_verdict(struct text *out, const char *file, const struct config_errors *errors,
                           bool ok, bool as_json)
{
    struct json_writer json = {.out = out};

    if (!as_json) {
        if (file)
            text_append_visible(out, file, strlen(file), SIZE_MAX);
        text_append_string(out, file ? ": ok\n"
                                     : "no configuration file; the built-in defaults are used\n");
        return;
    }
    json_write_begin_object(&json);
    json_write_key(&json, "file");
    json_write_string(&json, file);
    json_write_key(&json, "ok");
    json_write_bool(&json, ok);
    json_write_key(&json, "errors");
    json_write_begin_array(&json);
    for (size_t i = 0; i < errors->count; i++)
        json_write_string(&json, errors->lines[i]);
    json_write_end_array(&json);
    json_write_end_object(&json);
    text_append_char(out, '\n');
}

static int check(const struct command_context *context, const char *file, bool as_json)
{
    _cleanup_config_errors_ struct config_errors errors = {0};
    _cleanup_config_ struct config *config = NULL;
    _cleanup_text_ struct text out = {0};
    _cleanup_free_ char *found = NULL;
    int r = 0;

    if (!file) {
        r = config_find_file(context->config_path, getenv, &found, &errors);
        file = r < 0 ? context->config_path : found;
    }
    if (r == 0 && file)
        r = config_load(file, &config, &errors);
    if (r < 0)
        load_config_report(&errors, r);

    if (r == 0 || as_json) {
        format_verdict(&out, file, &errors, r == 0, as_json);
        if (!as_json && !charset_is_utf8())
            text_to_ascii(&out, 0);
        int status = print(&out);
        if (r == 0)
            return status;
    }
    return EXIT_USAGE;
}

static int show(const struct command_context *context, bool as_json)
{
    _cleanup_config_ struct config *config = NULL;
    _cleanup_free_ char *state_dir = NULL;
    _cleanup_text_ struct text out = {0};

    if (load_config(context, &config) < 0)
        return EXIT_USAGE;
    /* Without a home there is no state directory, and a relative one is not valid in a file; the
     * paths are then printed as comments. */
    if (paths_state_dir(context->state_dir, getenv, geteuid(), &state_dir) == 0 &&
        *state_dir == '/' && config_resolve_paths(config, state_dir) < 0) {
        log_error("config: out of memory");
        return EXIT_FAILURE;
    }
    if (as_json) {
        config_show_json(config, &out);
        text_append_char(&out, '\n');
    } else {
        config_show(config, &out);
    }
    return print(&out);
}

static int run_config(const struct command_context *context, struct arguments *arguments)
{
    const char *action = arguments->count > 0 ? arguments->words[0] : NULL;
    bool as_json = arguments_has(arguments, "json");

    if (action && strcmp(action, "check") == 0 && arguments->count <= 2)
        return check(context, arguments->count == 2 ? arguments->words[1] : NULL, as_json);
    if (action && strcmp(action, "show") == 0 && arguments->count == 1)
        return show(context, as_json);

    if (!action)
        return command_misused(&command_config, "missing argument; write 'check' or 'show'");
    if (strcmp(action, "check") == 0 || strcmp(action, "show") == 0)
        return command_misused(&command_config, "unexpected argument '%s'",
                               SHOWN(arguments->words[arguments->count - 1]));
    return command_misused(&command_config, "unknown argument '%s'; write 'check' or 'show'",
                           SHOWN(action));
}

static const struct command_option options[] = {
    {"json", 0, NULL, "Print the result as one JSON object."},
};

const struct command command_config = {
    .name = "config",
    .summary = "Check a configuration, or show the active one.",
    .usage = "config check [--json] [FILE]\n"
             "config show [--json]",
    .details =
        "check reads FILE, or else the file that sonde would use, and reports every error with\n"
        "file, line and column; the exit status is then 2.\n"
        "show prints the active configuration with the origin of each value; the output can\n"
        "be used as a configuration file.\n"
        "\n"
        "The file is the first of --config, $SONDE_CONFIG,\n"
        "$XDG_CONFIG_HOME/sonde/sonde.yaml (~/.config) and /etc/sonde/sonde.yaml.\n",
    .options = options,
    .option_count = ARRAY_SIZE(options),
    .run = run_config,
};
