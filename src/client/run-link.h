/* A daemon as the backend of a run (run/run-backend.h): what `sonde run` sends over the socket.
 * Only the end of the run waits for an answer. */
#pragma once

#include "run/run-backend.h"

/* How long the end of a run waits for the daemon's answer to job.finish: short enough for a person.
 * The daemon must answer sooner (WRITTEN_WAIT_NS in daemon/dispatch.c). */
#define RUN_LINK_FINISH_MSEC 2000

struct run_link;

/* `socket_paths` are the sockets to try; NULL ends the list. `store_path` is the caller's own
 * database (NULL: none). Both must outlive the link. Returns NULL without memory. */
struct run_link *run_link_new(const char *const *socket_paths, const char *store_path);
void run_link_free(struct run_link *link);

/* The interface that job_run() calls; valid as long as the link. */
const struct run_backend *run_link_backend(const struct run_link *link);
