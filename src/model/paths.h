/* Where sonde keeps its files and its socket: pure functions of the options, the environment and
 * the user. Nothing is created or looked at. */
#pragma once

#include <sys/types.h>

#define PATHS_SYSTEM_STATE_DIR "/var/lib/sonde"
#define PATHS_SYSTEM_SOCKET    "/run/sonde/sonde.sock"

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

/* `option` (--socket, or NULL), $SONDE_SOCKET, /run/sonde/sonde.sock for root,
 * $XDG_RUNTIME_DIR/sonde/sonde.sock, sonde.sock in the state directory. Returns as above. */
int paths_socket(const char *option, const char *state_dir_option, environment_getter *get,
                 uid_t uid, char **ret);
