/* The socket: who may connect, and how many. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "daemon/connection.h"
#include "config/config.h"

/* Fewer where the limit of open files is low. */
#define SERVER_CONNECTIONS_MAX 1024
/* Of one user, so that none can keep the others out; root and the owner are not counted. */
#define SERVER_CONNECTIONS_PER_USER 256
#define SERVER_BUFFER_PER_USER      (8 * 1024 * 1024)
#define SERVER_OUTPUT_PER_USER      (32 * 1024 * 1024)

/* The directory of the socket, such as /run/sonde: one that is made for it lets others through, one
 * that was there is left as it is. 0 or a negative errno. */
int server_make_directory(const char *path);

/* Made so that it is never open to others than `access` says. The file is gone with the server;
 * whatever was there is replaced, so that the caller must hold the lock. 0 or a negative errno:
 * -ENAMETOOLONG, -ENOENT (no such group); `daemon` outlives it. */
int server_start(struct daemon *daemon, const char *path, const struct access_config *access,
                 struct server **ret);
void server_close(struct server *server);

/* Others may connect from now on; those who may not any more are sent away. 0 or a negative errno,
 * with the former in force. */
int server_set_access(struct server *server, const struct access_config *access);

/* Looks for clients that stall often enough that each is closed soon after its time, by the
 * daemon's configuration in force. 0 or a negative errno. */
int server_plan_sweep(struct server *server);

/* Whether what waits of all connections of that user is still within SERVER_BUFFER_PER_USER; root
 * and the owner are trusted. */
bool server_has_buffer(const struct server *server, const struct peer *peer);

/* The same for answers and events that it has not read, and SERVER_OUTPUT_PER_USER. */
bool server_has_output(const struct server *server, const struct peer *peer);

/* Called by a connection that closes. */
void server_forget(struct server *server, struct connection *connection);

size_t server_connection_count(const struct server *server);
/* That were turned away. */
uint64_t server_refused_count(const struct server *server);
