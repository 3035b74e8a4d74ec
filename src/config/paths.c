#include "config/paths.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"

static int format_path(char **ret, const char *format, ...) _printf_(2, 3);

static int format_path(char **ret, const char *format, ...)
{
    struct text path = {0};
    va_list arguments;

    va_start(arguments, format);
    text_vprintf(&path, format, arguments);
    va_end(arguments);
    if (text_error(&path) < 0) {
        text_done(&path);
        return -ENOMEM;
    }
    *ret = path.bytes;
    return 0;
}

/* Returns the variable's value, or NULL if it is unset or empty. */
static const char *get_set(environment_getter *get, const char *name)
{
    const char *value = get(name);
    return value && *value ? value : NULL;
}

/* The XDG specification requires that relative paths are ignored. */
static const char *get_absolute(environment_getter *get, const char *name)
{
    const char *value = get(name);
    return value && *value == '/' ? value : NULL;
}

int paths_xdg(environment_getter *get, const char *variable, const char *fallback, const char *name,
              char **ret)
{
    const char *base = get_absolute(get, variable);
    if (base)
        return format_path(ret, "%s/%s", base, name);

    const char *home = get_absolute(get, "HOME");
    if (home)
        return format_path(ret, "%s/%s/%s", home, fallback, name);
    return -ENOENT;
}

/* Returns the socket that the option or the environment names explicitly, or NULL. */
static const char *named_socket(const char *option, environment_getter *get)
{
    return option ? option : get_set(get, "SONDE_SOCKET");
}

static const char *named_state_dir(const char *option, environment_getter *get)
{
    return option ? option : get_set(get, "SONDE_STATE_DIR");
}

int paths_state_dir(const char *option, environment_getter *get, uid_t uid, char **ret)
{
    const char *named = named_state_dir(option, get);
    if (named)
        return format_path(ret, "%s", named);

    /* systemd lists all directories of a unit, separated by colons. */
    const char *unit = get_absolute(get, "STATE_DIRECTORY");
    if (unit)
        return format_path(ret, "%.*s", (int)strcspn(unit, ":"), unit);

    if (uid == 0)
        return format_path(ret, "%s", PATHS_SYSTEM_STATE_DIR);
    return paths_xdg(get, "XDG_STATE_HOME", ".local/state", "sonde", ret);
}

int paths_socket(const char *option, const char *state_dir_option, environment_getter *get,
                 uid_t uid, char **ret)
{
    const char *named = named_socket(option, get);
    const char *private_dir = named_state_dir(state_dir_option, get);

    if (named)
        return format_path(ret, "%s", named);
    if (private_dir)
        return format_path(ret, "%s/sonde.sock", private_dir);
    if (uid == 0)
        return format_path(ret, "%s", PATHS_SYSTEM_SOCKET);

    const char *runtime_dir = get_absolute(get, "XDG_RUNTIME_DIR");
    if (runtime_dir)
        return format_path(ret, "%s/sonde/sonde.sock", runtime_dir);

    _cleanup_free_ char *state_dir = NULL;
    int r = paths_state_dir(NULL, get, uid, &state_dir);
    if (r < 0)
        return r;
    return format_path(ret, "%s/sonde.sock", state_dir);
}

int paths_sockets(const char *option, const char *state_dir_option, environment_getter *get,
                  uid_t uid, struct socket_paths *ret)
{
    _cleanup_socket_paths_ struct socket_paths paths = {.is_named = named_socket(option, get)};
    bool is_private = paths.is_named || named_state_dir(state_dir_option, get);
    size_t count = 0;

    int r = paths_socket(option, state_dir_option, get, uid, &paths.items[0]);
    if (r == 0)
        count++;
    else if (r != -ENOENT)
        return r;
    if (!is_private && (!count || strcmp(paths.items[0], PATHS_SYSTEM_SOCKET) != 0)) {
        r = format_path(&paths.items[count], "%s", PATHS_SYSTEM_SOCKET);
        if (r < 0)
            return r;
    }
    *ret = TAKE(paths, (struct socket_paths){0});
    return 0;
}

void socket_paths_done(struct socket_paths *paths)
{
    for (size_t i = 0; i < PATHS_SOCKETS_MAX; i++)
        free(paths->items[i]);
    *paths = (struct socket_paths){0};
}

bool paths_socket_fits(const char *path)
{
    return strlen(path) <= PATHS_SOCKET_MAX_BYTES;
}
