/* A daemon as the keeper of a run (engine/run-keeper.h): what `sonde run` tells it over the socket.
 * Nothing waits for an answer but the end of the run. */
#pragma once

#include "engine/run-keeper.h"

struct run_link;

/* `socket_paths` is where daemons may be, NULL ends it; must outlive it. NULL without memory. */
struct run_link *run_link_new(const char *const *socket_paths);
void run_link_free(struct run_link *link);
void run_link_freep(struct run_link **link);

/* Valid as long as the link. */
const struct run_keeper *run_link_keeper(const struct run_link *link);
