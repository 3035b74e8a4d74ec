/* Finds and reads the configuration file. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

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

/* Whether a pipe has no name, such as that of `--config <(…)`: a program writes it now. A named one
 * could wait for its writer forever. */
static bool is_unnamed_pipe(int fd)
{
    struct statfs fs;

    return fstatfs(fd, &fs) == 0 && fs.f_type == PIPEFS_MAGIC;
}

static int check_kind(int fd, bool may_block)
{
    struct stat status;

    if (fstat(fd, &status) < 0)
        return -errno;
    switch (status.st_mode & S_IFMT) {
    case S_IFDIR: return -EISDIR;
    case S_IFBLK: return -ENOTSUP;
    case S_IFIFO: return !may_block ? -ESPIPE : is_unnamed_pipe(fd) ? 0 : -ENOTSUP;
    default: return 0;
    }
}

/* Without `may_block`, a pipe is an error (-ESPIPE). The open itself never blocks. */
static int read_file(const char *path, bool may_block, struct text *into)
{
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

    if (fd < 0)
        return errno == ENXIO ? -ENOTSUP : -errno; /* a socket */
    int r = check_kind(fd, may_block);
    if (r == 0 && may_block && fcntl(fd, F_SETFL, 0) < 0)
        r = -errno;
    return r < 0 ? r : read_to_end(fd, into);
}

static const char *describe_error(int error)
{
    switch (error) {
    case ENOENT: return "no such file";
    case EACCES: return "not readable: permission denied";
    case EISDIR: return "is a directory, not a file";
    case ENOTSUP: return "is a named pipe, a socket or a device; name a regular file";
    case ESPIPE: return "is a pipe, which cannot be read again";
    default: return strerror(error);
    }
}

static int load_file(const char *path, bool may_block, struct config **ret,
                     struct config_errors *errors)
{
    _cleanup_text_ struct text bytes = {0};
    int r = read_file(path, may_block, &bytes);

    if (r < 0) {
        if (r != -ENOMEM)
            config_errors_add(errors, path, 0, 0, describe_error(-r));
        return errors->error ? errors->error : r;
    }
    return config_load_bytes(path, text_string(&bytes), bytes.length, ret, errors);
}

int config_load(const char *path, struct config **ret, struct config_errors *errors)
{
    return load_file(path, true, ret, errors);
}

int config_load_again(const char *path, struct config **ret, struct config_errors *errors)
{
    return load_file(path, false, ret, errors);
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
