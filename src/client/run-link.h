/* A daemon as the keeper of a run (run/run-backend.h): what `sonde run` tells it over the socket.
 * Nothing waits for an answer but the end of the run. */
#pragma once

#include "run/run-backend.h"

struct run_link;

/* `socket_paths` is where daemons may be, NULL ends it; `store_path` is the caller's own database.
 * Both must outlive it. NULL without memory. */
struct run_link *run_link_new(const char *const *socket_paths, const char *store_path);
void run_link_free(struct run_link *link);

/* Valid as long as the link. */
const struct run_backend *run_link_backend(const struct run_link *link);
