/* Holds the state, starts and stops the parts in order, and handles signals. */
#include "daemon/daemon.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd-io.h"
#include "base/log.h"
#include "base/vec.h"
#include "config/paths.h"
#include "daemon/adoption.h"
#include "daemon/daemon-state.h"
#include "daemon/instance-lock.h"
#include "daemon/periodic-analysis.h"
#include "daemon/publish.h"
#include "daemon/query-thread.h"
#include "daemon/server.h"
#include "daemon/service-manager.h"
#include "loop/signals.h"
#include "run/run-record.h"

/* Three files per process stay open between readings: a third of the cost of opening them. */
#define FILES_WANTED 65536
/* Events are published after at most this time, even with a long interval. */
#define FLUSH_AFTER_MS 500
/* The time for writing queued data before the daemon stops. A writer that still uses CPU time gets
 * up to ten times as long (STOP_TIMES_MAX in writer/store-writer.c); one that hangs is abandoned.
 */
#define STOP_STORING_NS (2 * NS_PER_SEC)

/* ---- callbacks ---- */

int64_t daemon_owner_of(void *context, const char *run_id)
{
    const struct daemon *daemon = context;
    const struct run *run = run_id ? registry_find_run(daemon->registry, run_id) : NULL;

    return run ? run->uid : INT_UNKNOWN;
}

const char *daemon_collector(const struct daemon *daemon)
{
    return daemon->kernel && kernel_probe_has(daemon->kernel, KERNEL_PART_PROCESSES) ? "bpf"
                                                                                     : "procfs";
}

int daemon_reader(struct daemon *daemon, struct store_reader **ret, struct store_error *error)
{
    int r = daemon->reader
                ? 0
                : store_reader_open(daemon->config->storage_path, &daemon->reader, error);
    if (r == 0)
        *ret = daemon->reader;
    return r;
}

static bool is_stored_elsewhere(void *context, const struct process_event *event)
{
    return run_lifecycle_is_stored_elsewhere(context, event);
}

static void on_tick(void *context, struct tick_box *box)
{
    struct daemon *daemon = context;
    bool has_snapshot = box->tick.snapshot != NULL;

    publish_tick(daemon, &box->tick);
    tick_box_remove_events(box, is_stored_elsewhere, daemon);
    if (daemon->writer)
        store_writer_tick(daemon->writer, box);
    else
        tick_box_free(box);
    if (has_snapshot && daemon->engine) /* not set during the first tick */
        run_lifecycle_sweep(daemon);
}

/* Logs the first failure and the recovery. */
static void on_collection(void *context _unused_, int error)
{
    if (error)
        log_fields(LOG_LEVEL_ERROR, "snapshot failed, will retry", "cause",
                   collector_strerror(error), NULL);
    else
        log_fields(LOG_LEVEL_INFO, "snapshots work again", NULL);
}

static void on_no_gpus(void *context _unused_, const char *reason)
{
    log_fields(LOG_LEVEL_WARNING, "no GPU, though profiler.gpu_enabled is true", "cause", reason,
               NULL);
}

static void on_run_found(void *context, struct run *run, const struct process_facts *facts)
{
    run_lifecycle_begin_found(context, run, facts);
}

/* Tracers reported after the end of the run. Stores only these system calls: the rest of the run is
 * stored already. */
static void on_late_syscalls(void *context, const char *run_id, const struct run_syscalls *syscalls)
{
    struct daemon *daemon = context;
    struct job job;

    if (!daemon->writer)
        return;
    record_init(&job_record, &job);
    job.run_id = run_id;
    job_profile_set_syscalls(&job.profile, syscalls);
    store_writer_finish_job(daemon->writer, &job); /* without memory, the sampled ones stay */
}

static void on_run_over(void *context, struct run *run)
{
    run_lifecycle_end_found(context, run);
}

/* Called in the writer's thread. */
static void on_store_notice(void *context _unused_, const char *text)
{
    log_fields(LOG_LEVEL_WARNING, text, "part", "store", NULL);
}

/* ---- configuration ---- */

/* Changes are collected first and reported after they are in force. */
struct changes {
    struct VEC(struct config_change) items;
    struct arena arena;
    int error;
};

static void changes_done(struct changes *changes)
{
    VEC_DONE(&changes->items);
    arena_done(&changes->arena);
}

static void note_change(void *context, const struct config_change *change)
{
    struct changes *changes = context;
    struct config_change copy = *change;

    copy.from = arena_strdup(&changes->arena, change->from);
    copy.to = arena_strdup(&changes->arena, change->to);
    if (!copy.from || !copy.to || VEC_PUSH(&changes->items, copy) < 0)
        changes->error = -ENOMEM;
}

static void report_changes(const struct changes *changes, config_change_fn on_change, void *context)
{
    for (size_t i = 0; i < changes->items.count; i++) {
        const struct config_change *change = &changes->items.items[i];
        log_fields(LOG_LEVEL_INFO, change->needs_restart ? "changed, needs a restart" : "changed",
                   "key", change->key, "from", change->from, "to", change->to, NULL);
        if (on_change)
            on_change(context, change);
    }
}

static uint64_t analysis_interval_ms(const struct config *config)
{
    return (uint64_t)(config->correlation.interval_minutes * 60000);
}

/* Applies all changes or none. */
static int apply_config(struct daemon *daemon, struct config *config)
{
    _cleanup_(rules_freep) struct rules *rules = NULL;

    int r = rules_new(&config->jobs.rules, &rules);
    if (r < 0)
        return r;
    struct engine_settings settings = engine_settings_of(config, rules);
    r = server_set_access(daemon->server, &config->daemon_access);
    if (r < 0)
        return r;
    /* The engine comes last: it keeps pointers into the new configuration, so once it has accepted
     * that, nothing may fail. */
    r = engine_configure(daemon->engine, &settings);
    if (r < 0) {
        if (server_set_access(daemon->server, &daemon->config->daemon_access) < 0)
            log_fields(LOG_LEVEL_ERROR, "the access to the socket did not change back", NULL);
        return r;
    }
    run_lifecycle_redact(daemon, &config->redact);
    live_redact(&daemon->live, &config->redact);
    if (daemon->writer && store_writer_configure(daemon->writer, &config->retention) < 0)
        log_fields(LOG_LEVEL_ERROR, "retention did not change: out of memory", NULL);
    periodic_analysis_configure(daemon->analysis, analysis_interval_ms(config),
                                config->correlation.min_sample_size);
    rules_free(daemon->rules);
    daemon->rules = TAKE_PTR(rules);
    config_free(daemon->config);
    daemon->config = config;
    server_plan_sweep(daemon->server);
    return 0;
}

static int change_config(struct daemon *daemon, struct config *config, struct changes *changes)
{
    int r = config_compare(daemon->config, config, note_change, changes);
    if (r == 0)
        r = changes->error;
    if (r == 0)
        r = config_keep_restart_values(daemon->config, config);
    return r < 0 ? r : apply_config(daemon, config);
}

int daemon_reload(struct daemon *daemon, config_change_fn on_change, void *context,
                  struct config_errors *errors)
{
    _cleanup_(changes_done) struct changes changes = {.error = 0};
    _cleanup_config_ struct config *config = NULL;

    service_notify("RELOADING=1\nMONOTONIC_USEC=%llu",
                   (unsigned long long)(clock_mono_ns() / NS_PER_USEC));
    int r = daemon->options->load_config(daemon->options->context, &config, errors);
    if (r == 0)
        r = change_config(daemon, config, &changes);
    if (r == 0) {
        TAKE_PTR(config);
        report_changes(&changes, on_change, context);
    }
    service_notify("READY=1");
    return r;
}

static void reload_on_signal(struct daemon *daemon)
{
    _cleanup_config_errors_ struct config_errors errors = {0};

    int r = daemon_reload(daemon, NULL, NULL, &errors);
    for (size_t i = 0; i < errors.count; i++)
        log_fields(LOG_LEVEL_ERROR, errors.lines[i], NULL);
    if (r < 0)
        log_fields(LOG_LEVEL_ERROR, "the configuration did not change", "cause",
                   errors.count ? "errors in the file" : strerror(-r), NULL);
    else
        log_fields(LOG_LEVEL_INFO, "configuration reloaded", "file", daemon->config->file, NULL);
}

/* ---- signals and time ---- */

static void on_signal(void *context, const struct signalfd_siginfo *info)
{
    struct daemon *daemon = context;
    int number = (int)info->ssi_signo;

    if (number == SIGHUP) {
        reload_on_signal(daemon);
    } else if (number == SIGTERM || number == SIGINT) {
        log_fields(LOG_LEVEL_INFO, "stopping", "signal", number == SIGTERM ? "SIGTERM" : "SIGINT",
                   NULL);
        service_notify("STOPPING=1");
        daemon->is_stopping = true;
        uv_stop(&daemon->loop);
    }
}

static void on_watchdog(uv_timer_t *timer _unused_)
{
    service_notify("WATCHDOG=1");
}

/* ---- starting ---- */

static const char *describe_socket_error(int error)
{
    switch (error) {
    case -ENAMETOOLONG: return "the path is longer than 107 bytes; use --socket";
    case -EEXIST: return "a file that is not a socket is at that path; use --socket";
    case -ENOENT: return "there is no such group, or no such directory (daemon.access, --socket)";
    default: return strerror(-error);
    }
}

static int log_listen_failure(const struct daemon *daemon, int error)
{
    log_fields(LOG_LEVEL_ERROR, "cannot listen", "socket", daemon->options->socket_path, "cause",
               describe_socket_error(error), NULL);
    return error;
}

static int take_lock(const char *path, const char *what, int *ret_fd)
{
    char pid[16];
    pid_t holder = 0;

    int r = instance_lock_take(path, ret_fd, &holder);
    if (r == 0)
        return 0;
    snprintf(pid, sizeof(pid), "%d", (int)holder);
    if (r == -EWOULDBLOCK)
        log_fields(LOG_LEVEL_ERROR, "another daemon is running", "pid", holder ? pid : NULL, "of",
                   what, "lock", path, NULL);
    else
        log_fields(LOG_LEVEL_ERROR, "cannot lock", "of", what, "lock", path, "cause",
                   r == -ELOOP ? "a symbolic link in a directory that others can write"
                               : strerror(-r),
                   NULL);
    return r;
}

static int make_directory_of(const char *path)
{
    _cleanup_fd_location_ struct fd_location location = {.dir_fd = -1};

    int r = fd_locate(path, &location);
    return r < 0 ? r : fd_location_make_dirs(&location);
}

/* Two daemons must share neither a socket nor a database. */
static int take_locks(struct daemon *daemon)
{
    _cleanup_text_ struct text socket_lock = {0}, state_lock = {0};

    if (!paths_socket_fits(daemon->options->socket_path))
        return log_listen_failure(daemon, -ENAMETOOLONG);
    text_printf(&socket_lock, "%s.lock", daemon->options->socket_path);
    text_printf(&state_lock, "%s-daemon", daemon->config->storage_path);
    if (text_error(&socket_lock) < 0 || text_error(&state_lock) < 0)
        return -ENOMEM;
    /* The database's directory first: if it is also the socket's, it is private. */
    int r = make_directory_of(daemon->config->storage_path);
    if (r == 0)
        r = server_make_directory(daemon->options->socket_path);
    if (r < 0) {
        log_fields(LOG_LEVEL_ERROR, "cannot reach the directories", "socket",
                   daemon->options->socket_path, "database", daemon->config->storage_path, "cause",
                   strerror(-r), NULL);
        return r;
    }
    r = take_lock(text_string(&socket_lock), "socket", &daemon->socket_lock_fd);
    return r < 0 ? r : take_lock(text_string(&state_lock), "database", &daemon->state_lock_fd);
}

static void raise_file_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= FILES_WANTED)
        return;
    limit.rlim_cur = MIN(limit.rlim_max, (rlim_t)FILES_WANTED);
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* Without a store the daemon still watches; the writer logs why. */
static int start_store(struct daemon *daemon)
{
    const struct config *config = daemon->config;
    struct store_writer_options options = {
        .store = {.path = config->storage_path,
                  .jsonl_path = config->jsonl_path,
                  .jsonl_max_bytes = config->jsonl_max_bytes,
                  .retention = config->retention,
                  .is_long_lived = true},
        .pace = {.stop_ns = STOP_STORING_NS},
        .on_notice = on_store_notice,
    };

    int r = run_record_place(config->interval_seconds, daemon_collector(daemon), &daemon->arena,
                             &options.store);
    if (r < 0)
        return r;
    daemon->host = options.store.host;
    daemon->boot_id = options.store.boot_id;
    return store_writer_start(&options, &daemon->writer);
}

/* `auto` falls back and logs it; a collector that is configured by name is required. */
static int open_kernel(struct daemon *daemon)
{
    enum collector_choice choice = daemon->config->collector;
    struct kernel_probe_error *refusal = &daemon->refusal;

    if (choice == COLLECTOR_CHOICE_PROCFS) {
        snprintf(refusal->text, sizeof(refusal->text), "profiler.collector is procfs");
        return 0;
    }
    const struct kernel_probe_options options = {
        .proc_root = PROC_ROOT, .wants_all = true, .counts_calls = true}; /* a client may ask */
    int r = kernel_probe_open(&options, &daemon->kernel, refusal);
    if (r == 0 || choice == COLLECTOR_CHOICE_AUTO)
        return 0;
    log_fields(LOG_LEVEL_ERROR, "no kernel collector", "cause", refusal->text, "fix",
               "give it what it needs, or set profiler.collector to auto", NULL);
    return r;
}

static int start_engine(struct daemon *daemon)
{
    struct connector *connector = NULL;

    int r = rules_new(&daemon->config->jobs.rules, &daemon->rules);
    if (r < 0)
        return r;
    if (!daemon->kernel || !kernel_probe_has(daemon->kernel, KERNEL_PART_EVENTS))
        daemon->connector_error = connector_open(&connector);
    const struct engine_options options = {
        .settings = engine_settings_of(daemon->config, daemon->rules),
        .registry = daemon->registry,
        .connector = connector,
        .kernel = daemon->kernel,
        .wants_events = true,
        .flush_after_ms = FLUSH_AFTER_MS,
        .on_tick = on_tick,
        .on_collection = on_collection,
        .on_no_gpus = on_no_gpus,
        .on_run_found = on_run_found,
        .on_run_over = on_run_over,
        .on_late_syscalls = on_late_syscalls,
        .context = daemon,
    };
    return engine_start(&daemon->loop, &options, &daemon->engine);
}

static int start_query_threads(struct daemon *daemon)
{
    const char *path = daemon->config->storage_path;

    int r = query_thread_start(&daemon->loop, daemon->writer, path, &daemon->report_queries);
    return r < 0 ? r
                 : query_thread_start(&daemon->loop, daemon->writer, path, &daemon->job_queries);
}

static int start_periodic_analysis(struct daemon *daemon)
{
    const struct periodic_analysis_options options = {
        .thread = daemon->report_queries,
        .every_ms = analysis_interval_ms(daemon->config),
        .min_sample_size = daemon->config->correlation.min_sample_size,
    };
    return periodic_analysis_start(&daemon->loop, &options, &daemon->analysis);
}

/* Logs a negative `error` and returns it. */
static int log_failure(const char *what, int error)
{
    if (error < 0)
        log_fields(LOG_LEVEL_ERROR, what, "cause", collector_strerror(error), NULL);
    return error;
}

static int start_server(struct daemon *daemon)
{
    int r = server_start(daemon, daemon->options->socket_path, &daemon->config->daemon_access,
                         &daemon->server);
    return r < 0 ? log_listen_failure(daemon, r) : 0;
}

static void start_watchdog(struct daemon *daemon)
{
    uint64_t every_ms = service_watchdog_ms() / 2;

    uv_timer_init(&daemon->loop, &daemon->watchdog);
    if (every_ms)
        uv_timer_start(&daemon->watchdog, on_watchdog, every_ms, every_ms);
}

/* The socket is opened last, so that clients find everything ready. Runs are adopted before the
 * first snapshot, so that it contains them. */
static int start_parts(struct daemon *daemon)
{
    int r = log_failure("cannot create the job registry", registry_new(&daemon->registry));
    if (r == 0)
        r = log_failure("cannot create the event bus", bus_new(&daemon->bus));
    if (r == 0)
        r = log_failure("cannot watch signals",
                        signal_watch_start(&daemon->loop, on_signal, daemon, &daemon->signals));
    if (r == 0)
        r = open_kernel(daemon);
    if (r == 0)
        r = log_failure("cannot start the store", start_store(daemon));
    if (r == 0)
        adopt_runs(daemon);
    if (r == 0)
        r = log_failure("cannot start sampling", start_engine(daemon));
    if (r == 0)
        r = log_failure("cannot start a query thread", start_query_threads(daemon));
    if (r == 0)
        r = log_failure("cannot start the periodic analysis", start_periodic_analysis(daemon));
    return r < 0 ? r : start_server(daemon);
}

static void report_ready(struct daemon *daemon)
{
    char interval[32];

    snprintf(interval, sizeof(interval), "%gs", daemon->config->interval_seconds);
    log_fields(LOG_LEVEL_INFO, "ready", "version", SONDE_VERSION, "socket",
               daemon->options->socket_path, "database", daemon->config->storage_path, "interval",
               interval, "collector", daemon_collector(daemon), "no_kernel_collector",
               daemon->kernel ? NULL : daemon->refusal.text, "missing",
               daemon->kernel && kernel_probe_missing_parts(daemon->kernel)[0]
                   ? kernel_probe_missing_parts(daemon->kernel)
                   : NULL,
               "forks_and_exits",
               daemon->connector_error ? strerror(-daemon->connector_error)
                                       : "reported by the kernel",
               NULL);
    service_notify("READY=1\nMAINPID=%d\nSTATUS=sampling every %s", (int)getpid(), interval);
}

/* ---- stopping ---- */

/* Runs continue; the next daemon adopts them. */
static void stop_parts(struct daemon *daemon)
{
    struct store_report report;

    periodic_analysis_close(TAKE_PTR(daemon->analysis));
    query_thread_stop(TAKE_PTR(daemon->report_queries));
    query_thread_stop(TAKE_PTR(daemon->job_queries));
    if (daemon->engine) {
        engine_stop_tracing(daemon->engine);
        engine_report_held_kills(daemon->engine);
        /* The next daemon looks for the processes of this last snapshot. */
        bool must_collect =
            registry_run_count(daemon->registry) || engine_has_new_kill(daemon->engine);
        if (!must_collect || engine_collect(daemon->engine) < 0)
            engine_flush(daemon->engine);
    }
    store_reader_close(
        TAKE_PTR(daemon->reader)); /* the writer checkpoints as the last connection */
    if (daemon->writer)
        store_writer_stop(TAKE_PTR(daemon->writer), &report);
    /* Clients are disconnected after the store is complete, so that a `sonde run` that continues
     * without the daemon finds its run there. */
    server_close(TAKE_PTR(daemon->server));
    engine_close(TAKE_PTR(daemon->engine));
    if (daemon->signals)
        signal_watch_close(TAKE_PTR(daemon->signals));
    uv_close((uv_handle_t *)&daemon->watchdog, NULL);
    uv_run(&daemon->loop, UV_RUN_DEFAULT); /* runs the close callbacks */
    uv_loop_close(&daemon->loop);
    kernel_probe_close(daemon->kernel);
    bus_free(daemon->bus);
    run_lifecycle_done(&daemon->lifecycle);
    registry_free(daemon->registry);
    rules_free(daemon->rules);
    live_done(&daemon->live);
    arena_done(&daemon->arena);
    close_fd(daemon->socket_lock_fd);
    close_fd(daemon->state_lock_fd);
}

static int run(struct daemon *daemon)
{
    struct signal_state original;

    int r = log_failure("cannot create the event loop", uv_loop_init(&daemon->loop));
    if (r < 0)
        return r;
    start_watchdog(daemon);
    signals_take_over(&original);
    raise_file_limit();
    r = take_locks(daemon);
    if (r == 0)
        r = start_parts(daemon);
    if (r == 0) {
        report_ready(daemon);
        uv_run(&daemon->loop, UV_RUN_DEFAULT);
    }
    stop_parts(daemon);
    if (r == 0)
        log_fields(LOG_LEVEL_INFO, "stopped", NULL);
    return r;
}

int daemon_run(const struct daemon_options *options, struct config *config)
{
    struct daemon *daemon = calloc(1, sizeof(*daemon));

    if (!daemon) {
        config_free(config);
        return log_failure("cannot start", -ENOMEM);
    }
    daemon->options = options;
    daemon->config = config;
    daemon->socket_lock_fd = daemon->state_lock_fd = -1;
    daemon->started = moment_now();
    int r = run(daemon);
    config_free(daemon->config);
    free(daemon);
    return r;
}
