/* Where sonde keeps its files and its socket: pure functions of the options, the environment and
 * the user. Nothing is created or looked at. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* The proc filesystem of this pid namespace. */
#define PROC_ROOT "/proc"

#define PATHS_SYSTEM_STATE_DIR "/var/lib/sonde"
#define PATHS_SYSTEM_SOCKET    "/run/sonde/sonde.sock"
/* The kernel has room for so many bytes and a NUL in the address of a socket (sun_path). */
#define PATHS_SOCKET_MAX_BYTES 107

/* Such as getenv(). An empty variable counts as unset. */
typedef char *environment_getter(const char *name);

/* The directory of `name` below an XDG base directory: `$variable/name`, or `~/fallback/name`
 * where the variable is unset or relative. 0, -ENOENT (no $HOME either) or -ENOMEM. */
int paths_xdg(environment_getter *get, const char *variable, const char *fallback, const char *name,
              char **ret);

/* `option` (--state-dir, or NULL), $SONDE_STATE_DIR, $STATE_DIRECTORY, /var/lib/sonde for root,
 * $XDG_STATE_HOME/sonde, ~/.local/state/sonde. 0, -ENOENT (none of these) or -ENOMEM; *ret is the
 * caller's to free. */
int paths_state_dir(const char *option, environment_getter *get, uid_t uid, char **ret);

/* Where this user's daemon listens: `option` (--socket, or NULL), $SONDE_SOCKET, sonde.sock in the
 * state directory that `state_dir_option` (--state-dir, or NULL) or $SONDE_STATE_DIR names,
 * /run/sonde/sonde.sock for root, $XDG_RUNTIME_DIR/sonde/sonde.sock, sonde.sock in the state
 * directory. Returns as above. */
int paths_socket(const char *option, const char *state_dir_option, environment_getter *get,
                 uid_t uid, char **ret);

#define PATHS_SOCKETS_MAX 2

/* Where daemons may be that a client asks, in the order in which they are tried. */
struct socket_paths {
    char *items[PATHS_SOCKETS_MAX + 1]; /* NULL ends it */
    bool is_named;                      /* by --socket or $SONDE_SOCKET: that one is meant */
};

/* This user's daemon, then the system's; that of a named socket or state directory alone: a private
 * sonde is private. 0 or -ENOMEM. */
int paths_sockets(const char *option, const char *state_dir_option, environment_getter *get,
                  uid_t uid, struct socket_paths *ret);
void socket_paths_done(struct socket_paths *paths);

#define _cleanup_socket_paths_ __attribute__((cleanup(socket_paths_done)))

/* Whether it fits into the address of a socket. */
bool paths_socket_fits(const char *path);
