#include "synthetic-world.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"

#define BUSY_PERCENT 15
/* One process in this many is replaced at each tick. */
#define REPLACED_ONE_IN 300
/* The unit of start times in /proc. */
#define TICKS_PER_SECOND 100
/* When the machine of this world was booted, before its first tick. */
#define BOOTED_SECONDS_AGO 1000000
/* Checksums of a thousand processes sum up without an overflow. */
#define CHECKSUM_MODULUS (INT64_C(1) << 40)

struct synthetic_process {
    int64_t pid;
    int64_t ppid;
    uint64_t start_ticks;
    char command[80];
    char state;
    int64_t threads;
    int64_t open_fds;
    int64_t read_bytes;
    double cpu_seconds;
    double cpu_percent;
    double rss_mb;
    bool in_job;
    int64_t sheet_num;
};

/* splitmix64: small, and the same everywhere. */
static uint64_t next_random(struct synthetic_world *world)
{
    uint64_t z = world->random += UINT64_C(0x9E3779B97F4A7C15);

    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static int64_t random_below(struct synthetic_world *world, int64_t limit)
{
    return (int64_t)(next_random(world) % (uint64_t)limit);
}

static int64_t checksum(int64_t pid, int64_t ppid, int64_t threads, int64_t open_fds,
                        int64_t read_bytes)
{
    return (pid * 1000003 + ppid * 10007 + threads * 101 + open_fds * 7 + read_bytes) %
           CHECKSUM_MODULUS;
}

/* ---- processes ---- */

static uint64_t ticks_since_boot(const struct synthetic_world *world)
{
    return (uint64_t)(BOOTED_SECONDS_AGO * TICKS_PER_SECOND +
                      (double)world->tick * world->interval_seconds * TICKS_PER_SECOND);
}

static void begin_process(struct synthetic_world *world, struct synthetic_process *process)
{
    static const char *const programs[] = {"/usr/bin/python3 train.py --epochs",
                                           "cc1plus -O2 -o object", "sleep", "[kworker/u8:3]"};

    *process = (struct synthetic_process){
        .pid = world->next_pid++,
        .ppid = 1 + random_below(world, 50),
        .start_ticks = ticks_since_boot(world),
        .state = 'S',
        .threads = 1 + random_below(world, 20),
        .open_fds = random_below(world, 200),
        .read_bytes = random_below(world, 1 << 20),
        .rss_mb = (double)random_below(world, 4000) / 16,
        .in_job = world->job_id && random_below(world, 2),
        .sheet_num = random_below(world, 3) ? INT_UNKNOWN : 1 + random_below(world, 4),
    };
    snprintf(process->command, sizeof(process->command), "%s %d",
             programs[random_below(world, ARRAY_SIZE(programs))], (int)random_below(world, 40));
}

static void work(struct synthetic_world *world, struct synthetic_process *process)
{
    bool is_busy = process->state != 'Z' && random_below(world, 100) < BUSY_PERCENT;
    double share = (double)random_below(world, 1000) / 1000;

    if (!is_busy) {
        process->cpu_percent = 0;
        process->state = process->state == 'Z' ? 'Z' : 'S';
        return;
    }
    process->state = "RRRSDZ"[random_below(world, 60) ? random_below(world, 5) : 5];
    process->cpu_percent = 100 * share;
    process->cpu_seconds += share * world->interval_seconds;
    process->rss_mb += (double)random_below(world, 64) / 16;
    process->threads = 1 + random_below(world, 20);
    process->open_fds += random_below(world, 3);
    process->read_bytes += random_below(world, 100000);
}

/* ---- events ---- */

static struct process_event *add_event(struct synthetic_world *world,
                                       const struct synthetic_process *process, int type,
                                       struct process_event_list *events)
{
    struct process_event *event = &events->items[events->count++];

    record_init(&process_event_record, event);
    event->is_step = event->details_are_calls = false;
    event->timestamp = world->now;
    event->event_type = type;
    event->pid = process->pid;
    if (process->in_job) {
        event->run_id = world->run_id;
        event->job_id = world->job_id;
        event->sheet_num = process->sheet_num;
    }
    return event;
}

static void replace(struct synthetic_world *world, struct synthetic_process *process,
                    struct process_event_list *events)
{
    struct process_event *end = add_event(world, process, EVENT_EXIT, events);

    end->exit_code = random_below(world, 10) ? 0 : 1;
    end->cpu_seconds = process->cpu_seconds;
    begin_process(world, process);
    add_event(world, process, EVENT_SPAWN, events)->ppid = process->ppid;
}

/* One event of each tick names the tick. It belongs to no run: many ticks within a second are a
 * storm, in which a run's events are counted instead of stored one by one. */
static int sign(struct synthetic_world *world, struct arena *arena,
                struct process_event_list *events)
{
    char text[64];

    snprintf(text, sizeof(text), "tick %lld of %d", (long long)world->tick, (int)getpid());
    struct process_event *event = add_event(world, &world->processes[0], EVENT_SIGNAL, events);
    event->run_id = event->job_id = NULL;
    event->sheet_num = INT_UNKNOWN;
    event->signal_num = 10;
    event->details = arena_strdup(arena, text);
    return event->details ? 0 : -ENOMEM;
}

/* ---- a snapshot ---- */

static int fill_process(const struct synthetic_world *world,
                        const struct synthetic_process *process, struct arena *arena,
                        struct process_metric *ret)
{
    uint64_t clock = ticks_since_boot(world);
    double start_offset = (double)process->start_ticks / TICKS_PER_SECOND - BOOTED_SECONDS_AGO;

    record_init(&process_metric_record, ret);
    ret->pid = process->pid;
    ret->ppid = process->ppid;
    ret->command = arena_strdup(arena, process->command);
    ret->state = process->state;
    ret->cpu_percent = process->cpu_percent;
    ret->cpu_seconds = process->cpu_seconds;
    ret->rss_mb = process->rss_mb;
    ret->vms_mb = process->rss_mb * 4;
    ret->shared_mb = process->rss_mb / 4;
    ret->threads = process->threads;
    ret->open_fds = process->open_fds;
    ret->age_seconds = (double)(clock - process->start_ticks) / TICKS_PER_SECOND;
    ret->start_ticks = process->start_ticks;
    ret->start_time = world->now - (double)world->tick * world->interval_seconds + start_offset;
    ret->uid = 1000;
    ret->read_bytes = process->read_bytes;
    ret->write_bytes = checksum(process->pid, process->ppid, process->threads, process->open_fds,
                                process->read_bytes);
    if (process->in_job) {
        ret->run_id = arena_strdup(arena, world->run_id);
        ret->job_id = arena_strdup(arena, world->job_id);
        ret->sheet_num = process->sheet_num;
    }
    return ret->command ? 0 : -ENOMEM;
}

static int fill_processes(struct synthetic_world *world, struct snapshot *snapshot)
{
    size_t count = world->process_count;
    struct process_metric *items = arena_alloc(&snapshot->arena, count * sizeof(*items));
    int r = items ? 0 : -ENOMEM;

    snapshot->active_sheets = 0;
    snapshot->zombie_count = 0;
    for (size_t i = 0; i < count && r == 0; i++) {
        r = fill_process(world, &world->processes[i], &snapshot->arena, &items[i]);
        snapshot->active_sheets += items[i].write_bytes;
        snapshot->zombie_count += items[i].state == 'Z';
    }
    snapshot->processes = (struct process_list){.items = items, .count = r == 0 ? count : 0};
    return r;
}

static int fill_usage(const struct synthetic_world *world, struct snapshot *snapshot)
{
    struct job_usage *usage = arena_alloc(&snapshot->arena, sizeof(*usage));

    if (!usage)
        return -ENOMEM;
    record_init(&job_usage_record, usage);
    usage->run_id = arena_strdup(&snapshot->arena, world->run_id);
    usage->job_id = arena_strdup(&snapshot->arena, world->job_id);
    usage->cpu_seconds = 0;
    usage->rss_mb = 0;
    usage->processes = 0;
    for (size_t i = 0; i < world->process_count; i++)
        if (world->processes[i].in_job) {
            usage->cpu_seconds += world->processes[i].cpu_seconds;
            usage->rss_mb += world->processes[i].rss_mb;
            usage->processes++;
        }
    snapshot->jobs = (struct job_usage_list){.items = usage, .count = 1};
    return usage->run_id && usage->job_id ? 0 : -ENOMEM;
}

static int fill_gpu(struct synthetic_world *world, struct snapshot *snapshot)
{
    struct gpu_metric *gpu = arena_alloc(&snapshot->arena, sizeof(*gpu));

    if (!gpu)
        return -ENOMEM;
    record_init(&gpu_metric_record, gpu);
    gpu->index = 0;
    gpu->utilization_pct = (double)random_below(world, 100);
    gpu->memory_used_mb = 1000;
    gpu->name = "Synthetic 1";
    snapshot->gpus = (struct gpu_list){.items = gpu, .count = 1};
    return 0;
}

static int fill_snapshot(struct synthetic_world *world, struct snapshot *snapshot)
{
    world->snapshot_id = snapshot_id_next(world->snapshot_id, world->now, (unsigned)getpid());
    snapshot->id = world->snapshot_id;
    snapshot->timestamp = world->now;
    snapshot->host = SYNTHETIC_HOST;
    snapshot->system_memory_total_mb = 64000;
    snapshot->system_memory_available_mb = 30000 + (double)random_below(world, 1000);
    snapshot->load_avg_1 = (double)random_below(world, 400) / 100;
    snapshot->pressure_level = PRESSURE_NONE;
    snapshot->running_jobs = world->tick;
    snapshot->process_total = (int64_t)world->process_count;
    int r = fill_processes(world, snapshot);
    if (r == 0 && world->job_id)
        r = fill_usage(world, snapshot);
    return r < 0 ? r : fill_gpu(world, snapshot);
}

int synthetic_world_tick(struct synthetic_world *world, struct tick *ret)
{
    struct snapshot *snapshot = snapshot_new();
    struct process_event_list events = {.items = world->events};

    if (!snapshot)
        return -ENOMEM;
    world->tick++;
    world->now += world->interval_seconds;
    for (size_t i = 0; i < world->process_count; i++)
        if (random_below(world, REPLACED_ONE_IN) == 0)
            replace(world, &world->processes[i], &events);
        else
            work(world, &world->processes[i]);
    int r = sign(world, &snapshot->arena, &events);
    if (r == 0)
        r = fill_snapshot(world, snapshot);
    if (r < 0) {
        snapshot_free(snapshot);
        return r;
    }
    *ret = (struct tick){.snapshot = snapshot, .events = events};
    return 0;
}

/* ---- all of it ---- */

int synthetic_world_init(struct synthetic_world *world, uint64_t seed, size_t processes,
                         double start, double interval_seconds, const char *job_id)
{
    *world = (struct synthetic_world){
        .random = seed,
        .now = start,
        .interval_seconds = interval_seconds,
        .job_id = job_id,
        .process_count = processes,
        .processes = calloc(processes, sizeof(struct synthetic_process)),
        .events = calloc(2 * processes + 1, sizeof(struct process_event)),
    };
    int r = uuid_make(clock_real_ns(), world->run_id);
    if (r < 0 || !world->processes || !world->events) {
        synthetic_world_done(world);
        return r < 0 ? r : -ENOMEM;
    }
    world->next_pid = 1000 + random_below(world, 100000);
    for (size_t i = 0; i < processes; i++)
        begin_process(world, &world->processes[i]);
    return 0;
}

void synthetic_world_done(struct synthetic_world *world)
{
    free(world->processes);
    free(world->events);
    *world = (struct synthetic_world){0};
}

bool synthetic_snapshot_is_whole(const struct snapshot *snapshot, const char **ret_why)
{
    int64_t sum = 0;

    *ret_why = "a process's row is not as it was written";
    for (size_t i = 0; i < snapshot->processes.count; i++) {
        const struct process_metric *process = &snapshot->processes.items[i];
        if (process->write_bytes != checksum(process->pid, process->ppid, process->threads,
                                             process->open_fds, process->read_bytes))
            return false;
        sum += process->write_bytes;
    }
    *ret_why = "processes are missing, or are not those of this snapshot";
    return sum == snapshot->active_sheets;
}
