#include "cli/load-config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/charset.h"
#include "base/cleanup.h"
#include "base/fd-io.h"
#include "base/log.h"
#include "config/paths.h"

/* Programs that read compiler messages find the position only at the start of the line. */
static void print_positioned(const char *error)
{
    _cleanup_text_ struct text line = {0};

    text_printf(&line, "%s\n", error);
    if (!charset_is_utf8())
        text_to_ascii(&line, 0);
    fd_write_all(STDERR_FILENO, text_string(&line), line.length);
}

void load_config_report(const struct config_errors *errors, int error)
{
    for (size_t i = 0; i < errors->count; i++)
        if (errors->has_line[i])
            print_positioned(errors->lines[i]);
        else
            log_error("%s", errors->lines[i]);
    if (errors->left_out)
        log_error("and %zu more errors", errors->left_out);
    if (!errors->count)
        log_error("cannot load the configuration: %s", strerror(-error));
}

int find_config(const struct command_context *context, bool again, struct config **ret,
                struct config_errors *errors)
{
    _cleanup_free_ char *path = NULL;

    int r = config_find_file(context->config_path, getenv, &path, errors);
    if (r < 0)
        return r;
    if (path)
        return again ? config_load_again(path, ret, errors) : config_load(path, ret, errors);

    struct config *config = config_new();
    if (!config)
        return -ENOMEM;
    *ret = config;
    return 0;
}

int load_config(const struct command_context *context, struct config **ret)
{
    _cleanup_config_errors_ struct config_errors errors = {0};
    int r = find_config(context, false, ret, &errors);

    if (r < 0)
        load_config_report(&errors, r);
    return r;
}

int resolve_paths(const struct command_context *context, struct config *config)
{
    _cleanup_free_ char *state_dir = NULL;

    int r = paths_state_dir(context->state_dir, getenv, geteuid(), &state_dir);
    if (r == -ENOENT && config->storage_path)
        return 0;
    return r < 0 ? r : config_resolve_paths(config, state_dir);
}
