#include <errno.h>
#include <string.h>

#include "config/config-load.h"

void config_errors_add(struct config_errors *errors, const char *file, unsigned line,
                       unsigned column, const char *message)
{
    _cleanup_text_ struct text text = {0};

    if (errors->count == CONFIG_ERRORS_MAX) {
        errors->left_out++;
        return;
    }

    text_append_visible(&text, file, strlen(file), SIZE_MAX);
    if (line)
        text_printf(&text, ":%u", line);
    if (column)
        text_printf(&text, ":%u", column);
    text_printf(&text, ": %s", message);

    char *copy = text_error(&text) < 0 ? NULL : arena_copy(&errors->arena, text.bytes, text.length);
    if (copy) {
        errors->has_line[errors->count] = line > 0;
        errors->lines[errors->count++] = copy;
    } else
        errors->error = -ENOMEM;
}

void config_errors_add_key(struct config_errors *errors, const struct config *config,
                           const char *key, const char *problem)
{
    _cleanup_text_ struct text message = {0};

    text_printf(&message, "%s: %s", key, problem);
    config_errors_add(errors, config->file ? config->file : "built-in",
                      config_origin_line(config, key), 0, text_string(&message));
}

void config_errors_done(struct config_errors *errors)
{
    arena_done(&errors->arena);
    *errors = (struct config_errors){0};
}
