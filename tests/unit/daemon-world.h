/* A daemon without its signals and its configuration file: registry, bus, store, engine, query
 * threads and server are real. The engine samples only when a test asks for it and receives no
 * events of the kernel. */
#pragma once

#include "daemon/daemon-state.h"

struct daemon_world {
    struct daemon daemon;
    struct daemon_options options;
    char dir[32];
    char socket_path[64];
    char store_path[64];
};

/* For cmocka: *state is the world. */
int daemon_world_set_up(void **state);
int daemon_world_tear_down(void **state);

/* Waits until the store has written everything, and opens it for reading. */
struct store_reader *daemon_world_reader(struct daemon_world *world);
