/* Paths of sonde's files and sockets: pure functions of the options, the environment and the user.
 * They do not access the filesystem. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* The root directory that sonde gives to its readers of /proc; tests give them another one. */
#define PROC_ROOT "/proc"

#define PATHS_SYSTEM_STATE_DIR "/var/lib/sonde"
#define PATHS_SYSTEM_SOCKET    "/run/sonde/sonde.sock"
/* The kernel's limit of a socket address (sun_path), without the NUL. */
#define PATHS_SOCKET_MAX_BYTES 107

/* For example getenv(). An empty variable counts as unset. */
typedef char *environment_getter(const char *name);

/* Makes the path of `name` in an XDG base directory: `$variable/name`, or `~/fallback/name` if the
 * variable is unset or relative. Returns 0, -ENOENT ($HOME is unset or relative too) or -ENOMEM.
 * The caller frees *ret. */
int paths_xdg(environment_getter *get, const char *variable, const char *fallback, const char *name,
              char **ret);

/* Finds the state directory: the first of `option` (--state-dir, or NULL), $SONDE_STATE_DIR,
 * $STATE_DIRECTORY, /var/lib/sonde for root, $XDG_STATE_HOME/sonde, ~/.local/state/sonde. Returns
 * 0, -ENOENT (none of these) or -ENOMEM. The caller frees *ret. */
int paths_state_dir(const char *option, environment_getter *get, uid_t uid, char **ret);

/* Finds the socket of this user's daemon, the first of: `option` (--socket, or NULL),
 * $SONDE_SOCKET, sonde.sock in the state directory that `state_dir_option` (--state-dir, or NULL)
 * or $SONDE_STATE_DIR names, /run/sonde/sonde.sock for root, $XDG_RUNTIME_DIR/sonde/sonde.sock,
 * sonde.sock in the state directory. Returns the same errors as above. */
int paths_socket(const char *option, const char *state_dir_option, environment_getter *get,
                 uid_t uid, char **ret);

#define PATHS_SOCKETS_MAX 2

/* Sockets that a client tries, in this order. */
struct socket_paths {
    char *items[PATHS_SOCKETS_MAX + 1]; /* terminated by NULL */
    bool is_named;                      /* by --socket or $SONDE_SOCKET: no other is tried */
};

/* Finds this user's socket, then the system's. If an option or a variable names a socket or a state
 * directory, finds only that one. Returns 0 or -ENOMEM. The caller frees *ret with
 * socket_paths_done(). */
int paths_sockets(const char *option, const char *state_dir_option, environment_getter *get,
                  uid_t uid, struct socket_paths *ret);
void socket_paths_done(struct socket_paths *paths);

#define _cleanup_socket_paths_ __attribute__((cleanup(socket_paths_done)))

/* Returns whether the path fits into a socket address. */
bool paths_socket_fits(const char *path);
