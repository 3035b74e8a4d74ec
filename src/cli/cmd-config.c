/* sonde config: checks a configuration, or shows the one in force. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
    if (r == 0 || r == -EPIPE) /* a reader that went away early is no failure */
        return EXIT_SUCCESS;
    log_error("config: cannot write: %s", strerror(-r));
    return EXIT_FAILURE;
}

/* `file` is NULL where there is none. */
static void format_verdict(struct text *out, const char *file, const struct config_errors *errors,
                           bool ok, bool as_json)
{
    struct json_writer json = {.out = out};

    if (!as_json) {
        if (file)
            text_append_visible(out, file, strlen(file), SIZE_MAX);
        text_append_string(out, file ? ": ok\n"
                                     : "no configuration file: built-in defaults are in force\n");
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
    /* Without a home there is no state directory, and a relative one cannot stand in a file; the
     * paths then stay comments. */
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
        return command_misused(&command_config, "say what to do: 'check' or 'show'");
    if (strcmp(action, "check") == 0 || strcmp(action, "show") == 0)
        return command_misused(&command_config, "'%s' is one word too many",
                               arguments->words[arguments->count - 1]);
    return command_misused(&command_config, "'%s' is unknown; use 'check' or 'show'", action);
}

static const struct command_option options[] = {
    {.name = "json", .help = "write JSON"},
};

const struct command command_config = {
    .name = "config",
    .summary = "Check a configuration, or show the one in force.",
    .usage = "config check [--json] [FILE]\n"
             "       sonde config show [--json]",
    .details = "check reads FILE, or else the file that sonde would read, and reports everything\n"
               "that is wrong with it, each with file, line and column; exit status 2.\n"
               "show prints the configuration in force with the origin of each value; what it\n"
               "prints can be used as a configuration file.\n"
               "\n"
               "The file is the first of --config, $SONDE_CONFIG,\n"
               "$XDG_CONFIG_HOME/sonde/sonde.yaml (~/.config) and /etc/sonde/sonde.yaml.\n",
    .options = options,
    .option_count = ARRAY_SIZE(options),
    .run = run_config,
};
