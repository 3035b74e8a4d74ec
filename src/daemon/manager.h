/* The daemon's state, for the files of this folder alone. */
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
    struct kernel_probe *kernel; /* NULL: `refusal` tells why */
    struct kernel_refusal refusal;
    int connector_error; /* 0, or why births and deaths have to be looked for */
    struct engine *engine;
    struct bus *bus;
    struct store_writer *writer; /* NULL: nothing is stored */
    struct store_reader *reader; /* the loop's own; NULL: not asked for yet */
    struct query_thread *asker;  /* for reports, which may take their time */
    struct query_thread
        *clerk; /* for what is asked or waited for in a moment, when jobs begin and end */
    struct periodic_analysis *analyst;
    struct server *server;
    struct live live;
    struct run_lifecycle desk;
    const char *host;
    const char *boot_id;
    struct arena arena; /* holds these two */
};

/* Reads the configuration again; tells of each change, or of each error. 0; -EINVAL: it is wrong,
 * and the old one stays in force; or another negative errno. */
int daemon_reload(struct daemon *daemon, config_change_fn on_change, void *context,
                  struct config_errors *errors);

/* Opened when first asked for. 0 or a negative errno, with words. */
int daemon_reader(struct daemon *daemon, struct store_reader **ret, struct store_error *error);

/* What processes are read with: "bpf" or "procfs". */
const char *daemon_collector(const struct daemon *daemon);

/* Whose run that is; INT_UNKNOWN: nobody's. For the bus. */
int64_t daemon_owner_of(void *context, const char *run_id);
