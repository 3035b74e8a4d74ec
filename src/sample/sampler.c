#include "sample/sampler.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "base/map.h"
#include "base/vec.h"
#include "sample/memory-reader.h"

/* The wall clock at boot is kept constant, so that the start_time of a process does not change with
 * every reading. It is updated when the clock was set by more than this. */
#define BOOT_TIME_SLACK_NS (NS_PER_SEC / 2)

/* The shortest time for a rate of a run. */
#define RATE_MIN_NS (50 * NS_PER_MSEC)

/* The part of the last reading of a process that rates need. */
struct previous {
    pid_t pid;
    uint64_t start_ticks;
    int64_t cpu_ns;
    uint64_t mono_ns;
    unsigned generation;
};

/* The state of a run between snapshots. */
struct run_state {
    bool has_cpu;
    uint64_t cpu_ns; /* at the last rate */
    uint64_t mono_ns;
    double cpu_percent;      /* the rate */
    struct job_usage *usage; /* in the present snapshot */
};

struct sampler {
    pid_t own_pid;
    uint64_t ns_per_tick;
    struct registry *registry;
    struct ledger *ledger;
    char host[256];
    struct process_metric unknown; /* the initial value of every process */

    unsigned generation;
    struct map processes; /* pid → struct previous */
    struct VEC(pid_t) gone;
    struct map runs; /* by the run's address → struct run_state */
    struct moment started;
    struct moment last;
    struct cpu_ticks cpu;
    bool cpu_known;
    uint64_t boot_real_ns; /* the wall clock at boot */
    const struct run_node *measured;
    struct memory_reader memory_reader;
};

/* The snapshot that is being made, and what it is made from. */
struct snapshot_builder {
    struct sampler *sampler;
    const struct sampler_input *input;
    struct snapshot *snapshot;
    bool is_first;
};

int sampler_new(const struct sampler_options *options, struct sampler **ret)
{
    _cleanup_(sampler_freep) struct sampler *sampler = calloc(1, sizeof(*sampler));
    if (!sampler)
        return -ENOMEM;

    uint64_t ticks_per_sec =
        options->ticks_per_sec ? options->ticks_per_sec : (uint64_t)sysconf(_SC_CLK_TCK);
    sampler->own_pid = options->own_pid;
    sampler->ns_per_tick = NS_PER_SEC / ticks_per_sec;
    sampler->registry = options->registry;
    record_init(&process_metric_record, &sampler->unknown);
    if (gethostname(sampler->host, sizeof(sampler->host) - 1) < 0)
        strcpy(sampler->host, "localhost");
    int r = ledger_new(options->own_pid, &sampler->ledger);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(sampler);
    return 0;
}

void sampler_free(struct sampler *sampler)
{
    if (!sampler)
        return;
    map_done_free(&sampler->processes);
    map_done_free(&sampler->runs);
    VEC_DONE(&sampler->gone);
    ledger_free(sampler->ledger);
    free(sampler);
}

void sampler_freep(struct sampler **sampler)
{
    sampler_free(*sampler);
}

/* ---- one process ---- */

static double percent(uint64_t part_ns, uint64_t whole_ns)
{
    return whole_ns ? 100.0 * (double)part_ns / (double)whole_ns : REAL_UNKNOWN;
}

/* The age of the process at its reading, by the boot clock, which its start time uses. */
static int64_t age_ns(const struct snapshot_builder *builder, const struct process_reading *reading)
{
    const struct moment *moment = &builder->input->readings->moment;
    uint64_t read_at_boot_ns = reading->mono_ns - moment->mono_ns + moment->boot_ns;
    uint64_t start_ns = reading->start_ticks * builder->sampler->ns_per_tick;

    return (int64_t)(read_at_boot_ns - start_ns);
}

/* CPU over the last interval, or over its life for a process that started within it. Unknown for a
 * process older than the first reading, and if the counter ran backwards. */
static double process_cpu_percent(const struct snapshot_builder *builder,
                                  const struct process_reading *reading,
                                  const struct previous *previous)
{
    const struct sampler *sampler = builder->sampler;

    if (!int_is_known(reading->cpu_ns))
        return REAL_UNKNOWN;
    if (previous->generation && previous->start_ticks == reading->start_ticks) {
        if (!int_is_known(previous->cpu_ns) || reading->cpu_ns < previous->cpu_ns ||
            reading->mono_ns <= previous->mono_ns)
            return REAL_UNKNOWN;
        return percent((uint64_t)(reading->cpu_ns - previous->cpu_ns),
                       reading->mono_ns - previous->mono_ns);
    }

    /* Start times are rounded down to ticks, so a process that seems one tick too old may be new.
     */
    uint64_t born_ns = (reading->start_ticks + 1) * sampler->ns_per_tick;
    int64_t life_ns = age_ns(builder, reading);
    if (builder->is_first || born_ns < sampler->last.boot_ns || life_ns <= 0)
        return REAL_UNKNOWN;
    return percent((uint64_t)reading->cpu_ns, (uint64_t)life_ns);
}

/* Returns the entry of a process; a new one has generation 0. Returns NULL without memory. */
static struct previous *get_previous(struct sampler *sampler, pid_t pid)
{
    struct previous *previous = map_get(&sampler->processes, (uint64_t)pid);
    if (previous)
        return previous;

    previous = calloc(1, sizeof(*previous));
    if (previous && map_put(&sampler->processes, (uint64_t)pid, previous) < 0) {
        free(previous);
        return NULL;
    }
    if (previous)
        previous->pid = pid;
    return previous;
}

static int drop_gone(struct sampler *sampler)
{
    size_t position = 0;
    int r = 0;

    sampler->gone.count = 0;
    for (struct previous *previous; (previous = map_next(&sampler->processes, &position));)
        if (previous->generation != sampler->generation && r == 0)
            r = VEC_PUSH(&sampler->gone, previous->pid);
    for (size_t i = 0; i < sampler->gone.count; i++)
        free(map_remove(&sampler->processes, (uint64_t)sampler->gone.items[i]));
    return r;
}

static struct run_state *find_run_state(const struct sampler *sampler, const struct run *run)
{
    return map_get(&sampler->runs, (uint64_t)(uintptr_t)run);
}

static int observe(struct sampler *sampler, const struct member *member,
                   const struct process_reading *reading)
{
    return member->is_counted ? ledger_observe_ended(sampler->ledger, member->node)
                              : ledger_observe(sampler->ledger, member->node, reading);
}

/* Sets the run of the process and adds it to the ledger. */
static int assign_run(struct snapshot_builder *builder, const struct process_reading *reading,
                      struct process_metric *metric)
{
    struct sampler *sampler = builder->sampler;
    struct member *member = NULL;

    if (!sampler->registry)
        return 0;
    int r = registry_place(sampler->registry, reading->pid, reading->ppid, reading->start_ticks,
                           &member);
    if (r < 0 || !member)
        return r;

    const struct job_usage *usage = find_run_state(sampler, member->run)->usage;
    metric->job_id = usage->job_id;
    metric->run_id = usage->run_id;
    metric->sheet_num = member->sheet_num;
    return observe(sampler, member, reading);
}

static int fill_process(struct snapshot_builder *builder, const struct process_reading *reading,
                        const struct previous *previous, struct process_metric *metric)
{
    struct sampler *sampler = builder->sampler;

    *metric = sampler->unknown;
    metric->pid = reading->pid;
    metric->ppid = reading->ppid;
    metric->start_ticks = reading->start_ticks;
    metric->state = reading->state;
    metric->threads = reading->threads;
    metric->uid = reading->uid;
    metric->open_fds = reading->open_fds;
    metric->fd_limit = reading->fd_limit;
    metric->read_bytes = reading->read_bytes;
    metric->write_bytes = reading->write_bytes;
    metric->rss_mb = bytes_to_mb(reading->rss_bytes);
    metric->vms_mb = bytes_to_mb(reading->vsize_bytes);
    metric->shared_mb = bytes_to_mb(reading->shared_bytes);
    metric->peak_rss_mb = bytes_to_mb(reading->peak_rss_bytes);
    metric->cpu_percent = process_cpu_percent(builder, reading, previous);
    metric->cpu_seconds =
        int_is_known(reading->cpu_ns) ? (double)reading->cpu_ns / 1e9 : REAL_UNKNOWN;
    metric->age_seconds = MAX((double)age_ns(builder, reading) / 1e9, 0.0);
    metric->start_time =
        ns_to_sec(sampler->boot_real_ns + reading->start_ticks * sampler->ns_per_tick);
    metric->command = arena_strdup(&builder->snapshot->arena, reading->command);
    if (!metric->command)
        return -ENOMEM;
    return assign_run(builder, reading, metric);
}

static int add_process(struct snapshot_builder *builder, const struct process_reading *reading,
                       struct process_metric *metric)
{
    struct previous *previous = get_previous(builder->sampler, reading->pid);

    int r = previous ? fill_process(builder, reading, previous, metric) : -ENOMEM;
    if (r == 0)
        *previous = (struct previous){.pid = reading->pid,
                                      .start_ticks = reading->start_ticks,
                                      .cpu_ns = reading->cpu_ns,
                                      .mono_ns = reading->mono_ns,
                                      .generation = builder->sampler->generation};
    return r;
}

/* ---- the machine ---- */

static void fill_own_usage(const struct snapshot_builder *builder)
{
    struct snapshot *snapshot = builder->snapshot;

    for (size_t i = 0; i < snapshot->processes.count; i++)
        if (snapshot->processes.items[i].pid == builder->sampler->own_pid) {
            snapshot->daemon_rss_mb = snapshot->processes.items[i].rss_mb;
            snapshot->daemon_cpu_percent = snapshot->processes.items[i].cpu_percent;
        }
}

static double system_cpu_percent(const struct sampler *sampler, const struct system_reading *now)
{
    uint64_t busy = now->cpu.busy - sampler->cpu.busy;
    uint64_t idle = now->cpu.idle - sampler->cpu.idle;
    uint64_t all = busy + idle + now->cpu.stolen - sampler->cpu.stolen;

    if (!sampler->cpu_known || !now->cpu_known || now->cpu.busy < sampler->cpu.busy ||
        now->cpu.idle < sampler->cpu.idle || now->cpu.stolen < sampler->cpu.stolen || !all)
        return REAL_UNKNOWN;
    /* The ticks count all online CPUs, even if limits permit only a part of them. */
    return 100.0 * (double)busy / (double)all * (double)now->cpu_online;
}

static void fill_system(const struct snapshot_builder *builder)
{
    const struct system_reading *system = builder->input->system;
    struct sampler *sampler = builder->sampler;
    struct snapshot *snapshot = builder->snapshot;

    if (!system)
        return;
    snapshot->system_memory_total_mb = bytes_to_mb(system->memory_total_bytes);
    snapshot->system_memory_available_mb = bytes_to_mb(system->memory_available_bytes);
    snapshot->system_memory_used_mb =
        snapshot->system_memory_total_mb - snapshot->system_memory_available_mb;
    snapshot->load_avg_1 = system->load.avg_1;
    snapshot->load_avg_5 = system->load.avg_5;
    snapshot->load_avg_15 = system->load.avg_15;
    snapshot->cpu_count = system->cpu_count;
    snapshot->psi = system->psi;
    snapshot->system_cpu_percent = system_cpu_percent(sampler, system);
    sampler->cpu = system->cpu;
    sampler->cpu_known = system->cpu_known;
}

static int fill_zombies(const struct snapshot_builder *builder)
{
    struct snapshot *snapshot = builder->snapshot;
    const struct process_list *processes = &snapshot->processes;

    snapshot->zombie_count = 0;
    for (size_t i = 0; i < processes->count; i++)
        snapshot->zombie_count += processes->items[i].state == 'Z';
    if (!snapshot->zombie_count)
        return 0;

    struct int_list *pids = &snapshot->zombie_pids;
    pids->items =
        arena_alloc(&snapshot->arena, (size_t)snapshot->zombie_count * sizeof(*pids->items));
    if (!pids->items)
        return -ENOMEM;
    for (size_t i = 0; i < processes->count; i++)
        if (processes->items[i].state == 'Z')
            pids->items[pids->count++] = processes->items[i].pid;
    return 0;
}

/* ---- jobs ---- */

static struct run_state *get_run_state(struct sampler *sampler, const struct run *run)
{
    struct run_state *state = find_run_state(sampler, run);
    if (state)
        return state;

    state = calloc(1, sizeof(*state));
    if (state && map_put(&sampler->runs, (uint64_t)(uintptr_t)run, state) < 0) {
        free(state);
        return NULL;
    }
    return state;
}

/* Lists the runs before their processes, which share the strings. */
static int list_jobs(struct snapshot_builder *builder)
{
    struct sampler *sampler = builder->sampler;
    struct snapshot *snapshot = builder->snapshot;
    struct job_usage_list *jobs = &snapshot->jobs;
    size_t count = sampler->registry ? registry_run_count(sampler->registry) : 0;
    const struct run *run = NULL;

    if (!count)
        return 0;
    jobs->items = arena_alloc(&snapshot->arena, count * sizeof(*jobs->items));
    if (!jobs->items)
        return -ENOMEM;
    while ((run = registry_next_run(sampler->registry, run))) {
        struct run_state *state = get_run_state(sampler, run);
        struct job_usage *usage = &jobs->items[jobs->count++];

        record_init(&job_usage_record, usage);
        usage->job_id = arena_strdup(&snapshot->arena, run->job_id);
        usage->run_id = arena_strdup(&snapshot->arena, run->run_id);
        usage->uid = run->uid;
        if (!state || !usage->job_id || !usage->run_id)
            return -ENOMEM;
        state->usage = usage;
    }
    return 0;
}

/* Keeps the last rate if little time has passed: exits are reported and processes are read somewhat
 * after the start of the snapshot, which would distort a rate over a short time. */
static void update_rate(struct run_state *state, const struct run_usage *used, uint64_t now_ns)
{
    uint64_t since_ns = now_ns - state->mono_ns;

    if (state->has_cpu && since_ns < RATE_MIN_NS)
        return;
    state->cpu_percent =
        state->has_cpu ? percent(used->largest.total_ns - state->cpu_ns, since_ns) : REAL_UNKNOWN;
    state->has_cpu = true;
    state->cpu_ns = used->largest.total_ns;
    state->mono_ns = now_ns;
}

/* CPU comes from the ledger. A run of which nothing was observed has unknown figures, but its
 * number of processes is 0. */
static void fill_usage(const struct snapshot_builder *builder, const struct run *run)
{
    const struct run_usage *used = ledger_find(builder->sampler->ledger, &run->node);
    struct run_state *state = find_run_state(builder->sampler, run);
    uint64_t now_ns = builder->input->readings->moment.mono_ns;
    struct job_usage *usage = state->usage;

    usage->processes = used ? used->processes : 0;
    if (!used)
        return;
    update_rate(state, used, now_ns);
    usage->cpu_percent = state->cpu_percent;
    usage->cpu_seconds = ns_to_sec(used->largest.total_ns);
    usage->rss_mb = bytes_to_mb(used->rss_bytes);
    usage->unique_min_mb = bytes_to_mb(used->unique_min_bytes);
    usage->unique_mb = bytes_to_mb(used->unique_bytes);
}

/* Adds the progress of a run, if it is known, to a list with room for all runs. */
static int add_progress(const struct snapshot_builder *builder, const struct run *run,
                        struct job_progress_list *list)
{
    struct job_progress *progress = &list->items[list->count];

    if (!int_is_known(run->total_sheets) || run->total_sheets < 1)
        return 0;
    record_init(&job_progress_record, progress);
    progress->job_id = find_run_state(builder->sampler, run)->usage->job_id;
    progress->run_id = find_run_state(builder->sampler, run)->usage->run_id;
    progress->total_sheets = run->total_sheets;
    progress->last_completed_sheet = run->last_completed_sheet;
    progress->current_sheet = run->current_sheet;
    if (run->status[0]) {
        progress->status = arena_strdup(&builder->snapshot->arena, run->status);
        if (!progress->status)
            return -ENOMEM;
    }
    list->count++;
    return 0;
}

static int fill_jobs(struct snapshot_builder *builder)
{
    struct snapshot *snapshot = builder->snapshot;
    struct job_progress_list *progress = &snapshot->job_progress;
    size_t count = snapshot->jobs.count;
    const struct run *run = NULL;
    int r = 0;

    snapshot->running_jobs = (int64_t)count;
    snapshot->active_sheets = 0;
    snapshot->jobs_unique_mb = bytes_to_mb(ledger_unique_bytes(builder->sampler->ledger));
    if (!count)
        return 0;
    progress->items = arena_alloc(&snapshot->arena, count * sizeof(*progress->items));
    if (!progress->items)
        return -ENOMEM;
    while (r == 0 && (run = registry_next_run(builder->sampler->registry, run))) {
        fill_usage(builder, run);
        snapshot->active_sheets += (int64_t)run->active_sheets;
        r = add_progress(builder, run, progress);
    }
    return r;
}

/* ---- the whole snapshot ---- */

/* See BOOT_TIME_SLACK_NS. */
static void update_boot_time(struct sampler *sampler, const struct moment *now)
{
    uint64_t boot_real_ns = now->real_ns - now->boot_ns;
    int64_t moved_ns = (int64_t)(boot_real_ns - sampler->boot_real_ns);

    if (moved_ns > (int64_t)BOOT_TIME_SLACK_NS || moved_ns < -(int64_t)BOOT_TIME_SLACK_NS)
        sampler->boot_real_ns = boot_real_ns;
}

static int add_processes(struct snapshot_builder *builder)
{
    const struct readings *readings = builder->input->readings;
    struct sampler *sampler = builder->sampler;
    struct process_list *processes = &builder->snapshot->processes;

    processes->items = arena_alloc(&builder->snapshot->arena,
                                   MAX(readings->count, (size_t)1) * sizeof(*processes->items));
    if (!processes->items)
        return -ENOMEM;

    ledger_begin(sampler->ledger, NULL);
    if (sampler->registry)
        registry_begin(sampler->registry);
    for (size_t i = 0; i < readings->count; i++) {
        int r = add_process(builder, &readings->items[i], &processes->items[i]);
        if (r < 0)
            return r;
        processes->count++;
    }
    ledger_end(sampler->ledger);
    if (sampler->registry)
        registry_drop_gone(sampler->registry);
    return sampler->processes.count > readings->count ? drop_gone(sampler) : 0;
}

static int fill_snapshot(struct snapshot_builder *builder)
{
    struct snapshot *snapshot = builder->snapshot;

    snapshot->host = arena_strdup(&snapshot->arena, builder->sampler->host);
    if (!snapshot->host)
        return -ENOMEM;
    int r = list_jobs(builder);
    if (r == 0)
        r = add_processes(builder);
    if (r < 0)
        return r;
    fill_own_usage(builder);
    fill_system(builder);
    r = fill_zombies(builder);
    return r < 0 ? r : fill_jobs(builder);
}

int sampler_take(struct sampler *sampler, const struct sampler_input *input, struct snapshot **ret)
{
    const struct moment *now = &input->readings->moment;
    _cleanup_(snapshot_freep) struct snapshot *snapshot = snapshot_new();
    struct snapshot_builder builder = {.sampler = sampler, .input = input, .snapshot = snapshot};

    if (!snapshot)
        return -ENOMEM;
    builder.is_first = sampler->generation == 0;
    if (builder.is_first)
        sampler->started = *now;
    sampler->generation++;
    update_boot_time(sampler, now);

    snapshot->timestamp = ns_to_sec(now->real_ns);
    snapshot->daemon_pid = sampler->own_pid;
    snapshot->conductor_uptime_seconds = ns_to_sec(now->mono_ns - sampler->started.mono_ns);
    snapshot->process_total = (int64_t)input->process_total;
    int r = fill_snapshot(&builder);
    sampler->last = *now;
    if (r < 0)
        return r;
    *ret = TAKE_PTR(snapshot);
    return 0;
}

int sampler_reaped(struct sampler *sampler, const struct run_node *node, pid_t pid,
                   const struct rusage *usage)
{
    return ledger_reaped(sampler->ledger, node, pid, usage);
}

int sampler_cover(struct sampler *sampler, const struct run_node *node, pid_t pid,
                  uint64_t start_ticks, const struct process_reading *reading)
{
    return ledger_cover(sampler->ledger, node, pid, start_ticks, reading);
}

void sampler_raise_peak(struct sampler *sampler, const struct run_node *node,
                        int64_t peak_rss_bytes)
{
    ledger_raise_peak(sampler->ledger, node, peak_rss_bytes);
}

void sampler_absorb_gone(struct sampler *sampler)
{
    ledger_absorb_gone(sampler->ledger);
}

void sampler_await_end(struct sampler *sampler, pid_t pid)
{
    ledger_await_end(sampler->ledger, pid);
}

void sampler_mark_incomplete(struct sampler *sampler)
{
    ledger_mark_incomplete(sampler->ledger);
}

void sampler_miss_end(struct sampler *sampler, const struct run_node *node,
                      const struct run_node *parent)
{
    ledger_miss_end(sampler->ledger, node, parent);
}

void sampler_miss_peak(struct sampler *sampler, const struct run_node *node,
                       const struct run_node *parent, int64_t most_bytes)
{
    ledger_miss_peak(sampler->ledger, node, parent, most_bytes);
}

int sampler_ended(struct sampler *sampler, const struct run_node *node,
                  const struct process_end *end)
{
    return ledger_ended(sampler->ledger, node, end);
}

int sampler_set_outer(struct sampler *sampler, const struct run_node *node,
                      const struct run_node *outer)
{
    return ledger_set_outer(sampler->ledger, node, outer);
}

void sampler_expect_measures(struct sampler *sampler, const struct run_node *node)
{
    sampler->measured = node;
    ledger_expect_measures(sampler->ledger, node);
}

void sampler_measure(struct sampler *sampler, int proc_fd)
{
    const struct measured_run run = {
        .proc_fd = proc_fd, .registry = sampler->registry, .node = sampler->measured};

    if (run.node)
        memory_reader_measure(&sampler->memory_reader, &run, sampler->ledger);
}

void sampler_set_bounds(struct sampler *sampler, const struct memory_bounds *bounds,
                        bool is_full_tick)
{
    ledger_set_bounds(sampler->ledger, bounds, is_full_tick);
}

const struct run_usage *sampler_usage(const struct sampler *sampler, const struct run_node *node)
{
    return ledger_find(sampler->ledger, node);
}

/* A process that has the pid of a member now is not observed. */
int sampler_observe(struct sampler *sampler, const struct readings *readings,
                    const struct run_node *root)
{
    int r = 0;

    ledger_begin(sampler->ledger, root);
    for (size_t i = 0; i < readings->count && r == 0; i++) {
        const struct process_reading *reading = &readings->items[i];
        const struct member *member = registry_find(sampler->registry, reading->pid);

        if (!member || (member->start_ticks && member->start_ticks != reading->start_ticks))
            continue;
        r = observe(sampler, member, reading);
    }
    if (r == 0)
        ledger_end(sampler->ledger);
    return r;
}

int sampler_move(struct sampler *sampler, const struct run_node *node, pid_t pid, bool from_now)
{
    return ledger_move(sampler->ledger, node, pid, from_now);
}

void sampler_move_ended(struct sampler *sampler, const struct run_node *node,
                        const struct run_node *from, const struct ended_usage *usage)
{
    ledger_move_ended(sampler->ledger, node, from, usage);
}

void sampler_end_step(struct sampler *sampler, const struct run_node *node)
{
    ledger_end_step(sampler->ledger, node);
}

void sampler_forget_step(struct sampler *sampler, const struct run_node *node)
{
    ledger_end_node(sampler->ledger, node);
}

void sampler_end_run(struct sampler *sampler, const struct run *run)
{
    for (size_t i = 0; i < run->sheets.count; i++)
        ledger_end_node(sampler->ledger, &run->sheets.items[i]->node);
    ledger_end_node(sampler->ledger, &run->node);
    free(map_remove(&sampler->runs, (uint64_t)(uintptr_t)run));
}
