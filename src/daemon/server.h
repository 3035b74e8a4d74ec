/* The socket: access and limits of connections. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "config/config.h"
#include "daemon/connection.h"

/* The limit of connections; lower if the limit of open files is low. */
#define SERVER_CONNECTIONS_MAX 1024
/* Per user, so that no user can lock others out; root and the owner are exempt. */
#define SERVER_CONNECTIONS_PER_USER 256
#define SERVER_BUFFER_PER_USER      (8 * 1024 * 1024)
#define SERVER_OUTPUT_PER_USER      (32 * 1024 * 1024)

/* Makes the directory of the socket, such as /run/sonde, accessible to all users; an existing one
 * is left as it is. Returns 0 or a negative errno. */
int server_make_directory(const char *path);

/* Creates the socket; at no moment is it open to more users than `access` allows. It replaces an
 * existing file, so the caller must hold the lock; closing the server removes it. `daemon` must
 * outlive the server. Returns 0 or a negative errno: -ENAMETOOLONG, -ENOENT (no such group). */
int server_start(struct daemon *daemon, const char *path, const struct access_config *access,
                 struct server **ret);
void server_close(struct server *server);

/* Changes who may connect and disconnects clients that may not any more. Returns 0 or a negative
 * errno, with the previous access in force. */
int server_set_access(struct server *server, const struct access_config *access);

/* Schedules the search for stalled clients by the configuration in force. Returns 0 or a negative
 * errno. */
int server_plan_sweep(struct server *server);

/* Whether the pending input of all connections of that user is within SERVER_BUFFER_PER_USER; root
 * and the owner are exempt. */
bool server_has_buffer(const struct server *server, const struct peer *peer);

/* The same for unread output and SERVER_OUTPUT_PER_USER. */
bool server_has_output(const struct server *server, const struct peer *peer);

/* Removes a connection from the list. Called by the connection when it closes. */
void server_forget(struct server *server, struct connection *connection);

size_t server_connection_count(const struct server *server);
/* The number of connections that were rejected so far. */
uint64_t server_refused_count(const struct server *server);
