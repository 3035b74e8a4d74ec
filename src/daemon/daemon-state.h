/* The daemon's state, private to this folder. */
#pragma once

#include <uv.h>

#include "base/map.h"
#include "daemon/bus.h"
#include "daemon/daemon.h"
#include "daemon/live.h"
#include "daemon/run-lifecycle.h"
#include "engine/engine.h"
#include "probe/bpf/kernel-probe.h"
#include "store/store.h"
#include "writer/store-writer.h"

struct periodic_analysis;
struct query_thread;
struct server;

struct daemon {
    const struct daemon_options *options;
    struct config *config;
    uv_loop_t loop;
    int socket_lock_fd;
    int state_lock_fd;
    struct signal_watch *signals;
    uv_timer_t watchdog;
    struct moment started;
    bool is_stopping;

    struct registry *registry;
    struct rules *rules;
    struct kernel_probe *kernel; /* NULL: see `refusal` */
    struct kernel_probe_error refusal;
    int connector_error; /* 0, or why there are no lifecycle events */
    struct engine *engine;
    struct bus *bus;
    struct store_writer *writer;         /* NULL: nothing is stored */
    struct store_reader *reader;         /* the loop's own; NULL: not opened yet */
    struct query_thread *report_queries; /* queries that may take seconds */
    struct query_thread *job_queries;    /* short queries at the start and end of jobs */
    struct periodic_analysis *analysis;
    struct server *server;
    struct live live;
    struct run_lifecycle lifecycle;
    const char *host;
    const char *boot_id;
    struct arena arena; /* holds host and boot_id */
};

/* Reloads the configuration, logs each change, and calls `on_change` (may be NULL) for it. Returns
 * 0, -EINVAL (it is invalid, with details in `errors`) or another negative errno. After an error
 * the old configuration stays in force. */
int daemon_reload(struct daemon *daemon, config_change_fn on_change, void *context,
                  struct config_errors *errors);

/* Opens the reader at the first call. Returns 0 or a negative errno, with a message. */
int daemon_reader(struct daemon *daemon, struct store_reader **ret, struct store_error *error);

/* The collector in use: "bpf" or "procfs". */
const char *daemon_collector(const struct daemon *daemon);

/* The uid of a run, for the bus; INT_UNKNOWN: no such run. */
int64_t daemon_owner_of(void *context, const char *run_id);
