#include "unit.h"

#include "detect-world.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"

struct anomaly_config world_config(void)
{
    _cleanup_config_ struct config *config = config_new();
    assert_non_null(config);
    return config->anomaly;
}

struct world *world_new(const struct anomaly_config *config,
                        const struct detect_constants *constants)
{
    struct world *world = calloc(1, sizeof(*world));
    struct anomaly_config built_in = world_config();

    assert_non_null(world);
    assert_int_equal(detector_new_with(config ? config : &built_in,
                                       constants ? constants : &detect_constants_default,
                                       &world->detector),
                     0);
    record_init(&snapshot_record, &world->snapshot);
    world->snapshot.processes.items = world->processes;
    world->snapshot.daemon_pid = WORLD_DAEMON_PID;
    world->snapshot.system_memory_total_mb = 16384;
    world->snapshot.system_memory_available_mb = 8192;
    world->event_list.items = world->events;
    world->now_ns = 5000 * NS_PER_SEC;
    world->wall_offset = 1.7e9;
    return world;
}

void world_free(struct world *world)
{
    if (!world)
        return;
    detector_free(world->detector);
    arena_done(&world->arena);
    free(world);
}

void world_freep(struct world **world)
{
    world_free(*world);
}

struct process_metric *world_add(struct world *world, int64_t pid, const char *command)
{
    struct process_metric *process = &world->processes[world->snapshot.processes.count++];

    assert_true(world->snapshot.processes.count <= WORLD_PROCESSES_MAX);
    record_init(&process_metric_record, process);
    process->pid = pid;
    process->ppid = 1;
    process->command = command;
    process->state = 'S';
    process->cpu_percent = 0;
    process->rss_mb = 20;
    process->open_fds = 10;
    process->age_seconds = 3600;
    process->uid = 1000;
    process->start_ticks = (uint64_t)pid;
    return process;
}

struct process_metric *world_find(struct world *world, int64_t pid)
{
    for (size_t i = 0; i < world->snapshot.processes.count; i++)
        if (world->processes[i].pid == pid)
            return &world->processes[i];
    return NULL;
}

void world_remove(struct world *world, int64_t pid)
{
    struct process_metric *process = world_find(world, pid);

    assert_non_null(process);
    *process = world->processes[--world->snapshot.processes.count];
}

void world_put_into_job(struct process_metric *process, const char *job_id, const char *run_id)
{
    process->job_id = job_id;
    process->run_id = run_id;
    process->sheet_num = 3;
}

struct process_event *world_happen(struct world *world, int event_type, int64_t pid)
{
    struct process_event *event = &world->events[world->event_list.count++];

    assert_true(world->event_list.count <= WORLD_EVENTS_MAX);
    record_init(&process_event_record, event);
    event->uid = INT_UNKNOWN;
    event->event_type = event_type;
    event->pid = pid;
    return event;
}

/* Checks the order (openings, changes, clearings) and counts the openings. */
static void count_reported(struct world *world)
{
    int phase = 0;

    for (size_t i = 0; i < world->reported.count; i++) {
        const struct anomaly *anomaly = &world->reported.items[i];
        int this_phase = real_is_known(anomaly->cleared_at) ? 2 : anomaly->is_opening ? 0 : 1;

        assert_true(this_phase >= phase);
        assert_false(anomaly->is_opening && this_phase == 2);
        phase = this_phase;
        world->openings += phase == 0;
        world->changes += phase == 1;
        world->clearings += phase == 2;
        if (phase == 0)
            assert_true(anomaly->timestamp == world->snapshot.timestamp);
        if (phase == 2)
            assert_true(anomaly->cleared_at == world->snapshot.timestamp);
        world->worst = MAX(world->worst, anomaly->severity);
    }
}

void world_tick(struct world *world, double seconds)
{
    world->now_ns += (uint64_t)(seconds * 1e9 + 0.5);
    world->snapshot.timestamp = ns_to_sec(world->now_ns) + world->wall_offset;
    for (size_t i = 0; i < world->snapshot.processes.count; i++)
        if (real_is_known(world->processes[i].age_seconds))
            world->processes[i].age_seconds += seconds;
    for (size_t i = 0; i < world->event_list.count; i++)
        world->events[i].timestamp = world->snapshot.timestamp;

    const struct detect_input input = {.snapshot = &world->snapshot,
                                       .mono_ns = world->now_ns,
                                       .events =
                                           world->event_list.count ? &world->event_list : NULL};
    arena_reset(&world->arena);
    assert_int_equal(detector_check(world->detector, &input, &world->arena, &world->reported), 0);
    assert_int_equal(detector_list_open(world->detector, &world->arena, &world->open), 0);
    assert_int_equal(detector_open_count(world->detector), world->open.count);
    count_reported(world);
    assert_int_equal(world->openings - world->clearings, world->open.count);
    world->event_list.count = 0;
}

void world_ticks(struct world *world, unsigned count, double seconds)
{
    for (unsigned i = 0; i < count; i++)
        world_tick(world, seconds);
}

static const struct anomaly *find_only(const struct anomaly_list *list, const char *type)
{
    const struct anomaly *found = NULL;

    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i].anomaly_type, type) == 0) {
            assert_null(found);
            found = &list->items[i];
        }
    return found;
}

const struct anomaly *world_reported(const struct world *world, const char *type)
{
    return find_only(&world->reported, type);
}

const struct anomaly *world_opened(const struct world *world, const char *type)
{
    const struct anomaly *anomaly = find_only(&world->reported, type);
    return anomaly && anomaly->is_opening ? anomaly : NULL;
}

const struct anomaly *world_cleared(const struct world *world, const char *type)
{
    const struct anomaly *anomaly = find_only(&world->reported, type);
    return anomaly && real_is_known(anomaly->cleared_at) ? anomaly : NULL;
}

const struct anomaly *world_open(const struct world *world, const char *type)
{
    return find_only(&world->open, type);
}
