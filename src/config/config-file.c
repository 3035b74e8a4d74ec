/* Finds and reads the configuration file. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "config/config-load.h"

#define SYSTEM_FILE "/etc/sonde/sonde.yaml"

/* Reads to the end, or one byte past the limit, which config_load_bytes() then rejects.
 * fd_read_start() does not work for a pipe (`--config <(…)`), which needs several reads and
 * supports no offset. */
static int read_to_end(int fd, struct text *into)
{
    while (into->length <= CONFIG_FILE_MAX_BYTES) {
        if (text_reserve(into, 16384) < 0)
            return -ENOMEM;
        ssize_t n = read(fd, into->bytes + into->length, 16384);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        into->length += (size_t)n;
    }
    return 0;
}

/* With O_NONBLOCK in `flags`, never blocks: a FIFO is then an error (-ESPIPE). */
static int read_file(const char *path, int flags, struct text *into)
{
    struct stat status;
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | flags);

    if (fd < 0 || fstat(fd, &status) < 0)
        return -errno;
    if (S_ISDIR(status.st_mode))
        return -EISDIR;
    if (S_ISFIFO(status.st_mode) && flags & O_NONBLOCK)
        return -ESPIPE;
    return read_to_end(fd, into);
}

static const char *describe_error(int error)
{
    switch (error) {
    case ENOENT: return "no such file";
    case EACCES: return "not readable: permission denied";
    case EISDIR: return "is a directory, not a file";
    case ESPIPE: return "is a pipe, which cannot be read again";
    default: return strerror(error);
    }
}

static int load_file(const char *path, int flags, struct config **ret, struct config_errors *errors)
{
    _cleanup_text_ struct text bytes = {0};
    int r = read_file(path, flags, &bytes);

    if (r < 0) {
        if (r != -ENOMEM)
            config_errors_add(errors, path, 0, 0, describe_error(-r));
        return errors->error ? errors->error : r;
    }
    return config_load_bytes(path, text_string(&bytes), bytes.length, ret, errors);
}

int config_load(const char *path, struct config **ret, struct config_errors *errors)
{
    return load_file(path, 0, ret, errors);
}

int config_load_again(const char *path, struct config **ret, struct config_errors *errors)
{
    return load_file(path, O_NONBLOCK, ret, errors);
}

/* Returns whether the search may continue: the file does not exist, or its directory is not
 * accessible, for example if $HOME belongs to another user. An existing file that cannot be read is
 * an error later. */
static bool is_absent(const char *path)
{
    return access(path, F_OK) < 0 && (errno == ENOENT || errno == ENOTDIR || errno == EACCES);
}

static int find_named(const char *path, const char *named_by, char **ret_path,
                      struct config_errors *errors)
{
    _cleanup_text_ struct text message = {0};

    if (access(path, F_OK) < 0) {
        int error = errno;
        text_printf(&message, "%s (named by %s)", describe_error(error), named_by);
        config_errors_add(errors, path, 0, 0, text_string(&message));
        return errors->error ? errors->error : -error;
    }
    char *copy = strdup(path);
    if (!copy)
        return -ENOMEM;
    *ret_path = copy;
    return 0;
}

int config_find_file(const char *option, environment_getter *get, char **ret_path,
                     struct config_errors *errors)
{
    if (option)
        return find_named(option, "--config", ret_path, errors);
    const char *named = get("SONDE_CONFIG");
    if (named && *named)
        return find_named(named, "$SONDE_CONFIG", ret_path, errors);

    _cleanup_free_ char *path = NULL;
    int r = paths_xdg(get, "XDG_CONFIG_HOME", ".config", "sonde/sonde.yaml", &path);
    if (r == -ENOMEM)
        return r;
    if (r < 0 || is_absent(path)) {
        free(path);
        path = NULL;
        if (!is_absent(SYSTEM_FILE) && !(path = strdup(SYSTEM_FILE)))
            return -ENOMEM;
    }
    *ret_path = TAKE_PTR(path);
    return 0;
}
