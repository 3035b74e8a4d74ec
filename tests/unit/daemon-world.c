#include "daemon-world.h"

#include "unit.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "daemon/publish.h"
#include "daemon/query-thread.h"
#include "daemon/server.h"

/* The same as the daemon's, but without the sweep, which the tests call. */
static void on_tick(void *context, struct tick_box *box)
{
    struct daemon *daemon = context;

    publish_tick(daemon, &box->tick);
    store_writer_tick(daemon->writer, box);
}

static void start_store(struct daemon_world *world)
{
    struct daemon *daemon = &world->daemon;
    const struct store_writer_options options = {
        .store = {.path = world->store_path,
                  .retention = daemon->config->retention,
                  .host = "host.example",
                  .boot_id = "2b2ae0f4-39d3-4a35-b0f5-1c2b0a0e6f3e",
                  .collector = "procfs",
                  .interval_seconds = 5,
                  .is_long_lived = true},
    };

    daemon->host = options.store.host;
    daemon->boot_id = options.store.boot_id;
    assert_int_equal(store_writer_start(&options, &daemon->writer), 0);
    assert_true(store_writer_wait(daemon->writer, 20 * NS_PER_SEC));
}

static void start_engine(struct daemon *daemon)
{
    const struct engine_options options = {
        .settings = {.interval_ns = 3600 * NS_PER_SEC,
                     .scope = SCOPE_JOBS,
                     .syscalls = SYSCALLS_CHOICE_OFF,
                     .gpus = SWITCH_OFF,
                     .redact = &daemon->config->redact},
        .only_jobs = true,
        .registry = daemon->registry,
        .wants_events = true,
        .on_tick = on_tick,
        .context = daemon,
    };

    assert_int_equal(engine_start(&daemon->loop, &options, &daemon->engine), 0);
}

int daemon_world_set_up(void **state)
{
    struct daemon_world *world = calloc(1, sizeof(*world));
    _cleanup_config_errors_ struct config_errors errors = {0};

    assert_non_null(world);
    *state = world;
    strcpy(world->dir, "/tmp/sonde-daemon.XXXXXX");
    assert_non_null(mkdtemp(world->dir));
    snprintf(world->socket_path, sizeof(world->socket_path), "%s/s", world->dir);
    snprintf(world->store_path, sizeof(world->store_path), "%s/db", world->dir);
    struct daemon *daemon = &world->daemon;
    world->options.socket_path = world->socket_path;
    daemon->options = &world->options;
    daemon->socket_lock_fd = daemon->state_lock_fd = -1;
    daemon->started = moment_now();
    assert_int_equal(config_load_bytes("test", "{}", 2, &daemon->config, &errors), 0);
    assert_int_equal(uv_loop_init(&daemon->loop), 0);
    assert_int_equal(registry_new(&daemon->registry), 0);
    assert_int_equal(bus_new(&daemon->bus), 0);
    start_store(world);
    start_engine(daemon);
    assert_int_equal(query_thread_start(&daemon->loop, daemon->writer, world->store_path,
                                        &daemon->report_queries),
                     0);
    assert_int_equal(
        query_thread_start(&daemon->loop, daemon->writer, world->store_path, &daemon->job_queries),
        0);
    assert_int_equal(
        server_start(daemon, world->socket_path, &daemon->config->daemon_access, &daemon->server),
        0);
    return 0;
}

int daemon_world_tear_down(void **state)
{
    struct daemon_world *world = *state;
    struct daemon *daemon = &world->daemon;
    struct store_report report;
    char command[64];

    query_thread_stop(daemon->report_queries);
    query_thread_stop(daemon->job_queries);
    store_reader_close(daemon->reader);
    server_close(daemon->server);
    engine_close(daemon->engine);
    store_writer_stop(daemon->writer, &report);
    uv_run(&daemon->loop, UV_RUN_DEFAULT);
    int r = uv_loop_close(&daemon->loop);
    bus_free(daemon->bus);
    run_lifecycle_done(&daemon->lifecycle);
    registry_free(daemon->registry);
    live_done(&daemon->live);
    config_free(daemon->config);
    snprintf(command, sizeof(command), "rm -rf '%s'", world->dir);
    free(world);
    return r < 0 ? r : system(command);
}

struct store_reader *daemon_world_reader(struct daemon_world *world)
{
    struct daemon *daemon = &world->daemon;
    struct store_error error = {.text = ""};

    assert_true(store_writer_wait(daemon->writer, 20 * NS_PER_SEC));
    if (!daemon->reader && store_reader_open(world->store_path, &daemon->reader, &error) < 0)
        fail_msg("%s", error.text);
    return daemon->reader;
}
