/* A synthetic machine: 200 processes, of which 15 % are busy and 0.3 % are replaced each tick, half
 * of them in ten jobs, with every field of a snapshot filled as a kernel collector would fill it.
 * The numbers are always the same, so that two stores get the same data.
 *
 * 60 processes last for ever, 40 start and end, and each job has ten, which end with it at the
 * latest; a job begins every four minutes and runs for forty, every second one in steps. Of an idle
 * process only the age changes. */
#pragma once

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/uuid.h"
#include "store/store.h"

#define MACHINE_PROCESSES     200
#define MACHINE_LASTING       60
#define MACHINE_JOBS          10
#define MACHINE_JOB_PROCESSES 10
#define MACHINE_FIRST_OF_JOBS (MACHINE_PROCESSES - MACHINE_JOBS * MACHINE_JOB_PROCESSES)
#define MACHINE_COMMANDS      300

#define MACHINE_BUSY_PERCENT   15
#define MACHINE_DEATHS_PER_10K 29 /* per tick, of those that do not last; without ends of jobs */

#define MACHINE_UP_SECONDS   864000.0 /* at the first tick */
#define MACHINE_PAGES_PER_MB 256.0

struct machine_process {
    int64_t pid, ppid;
    const char *command;
    uint64_t start_ticks;
    int job;       /* -1: none */
    int64_t sheet; /* INT_UNKNOWN: none */
    int64_t uid;
    bool is_busy, does_io, has_gpu, is_new, is_doomed;
    char state;
    int64_t rss, vms, shared, peak; /* pages */
    int64_t threads, fds;
    double cpu_percent, cpu_seconds;
    int64_t read_bytes, write_bytes;
};

struct machine_job {
    char run_id[UUID_TEXT_SIZE];
    char job_id[64];
    double started_at;
    int64_t ends_at;       /* tick */
    int64_t sheet, sheets; /* 0: without steps */
    double reaped_seconds, cpu_before;
};

struct machine {
    uint64_t random;
    double first_timestamp, timestamp, interval;
    int64_t tick, snapshot_id, next_pid;
    unsigned runs;
    char commands[MACHINE_COMMANDS][160];
    struct machine_process processes[MACHINE_PROCESSES];
    struct machine_job jobs[MACHINE_JOBS];
    double available_mb, load;
};

/* The data of one tick; the snapshot owns all of it. */
struct machine_news {
    struct tick tick;
    struct job begun[MACHINE_JOBS], ended[MACHINE_JOBS];
    size_t begun_count, ended_count;
    struct sheet sheets[2 * MACHINE_JOBS];
    size_t sheet_count;
    struct process_event events[2 * MACHINE_PROCESSES];
};

static inline unsigned machine_random(struct machine *machine, unsigned below)
{
    uint64_t x = machine->random;

    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    machine->random = x;
    return (unsigned)((x >> 11) % below);
}

static inline bool machine_chance(struct machine *machine, unsigned percent)
{
    return machine_random(machine, 100) < percent;
}

static inline const char *machine_copy(struct machine_news *news, const char *text)
{
    char *copy = arena_strdup(&news->tick.snapshot->arena, text);
    if (!copy)
        abort();
    return copy;
}

static inline uint64_t machine_now_ticks(const struct machine *machine)
{
    double up = MACHINE_UP_SECONDS + machine->timestamp - machine->first_timestamp;
    return (uint64_t)(up * 100);
}

/* ---- births and deaths ---- */

static inline void machine_note(struct machine *machine, const struct machine_process *process,
                                enum event_type type, struct machine_news *news)
{
    struct process_event *event = &news->events[news->tick.events.count++];

    record_init(&process_event_record, event);
    event->timestamp = machine->timestamp - machine->interval * machine_random(machine, 999) / 1e3;
    event->pid = process->pid;
    event->ppid = process->ppid;
    event->event_type = type;
    event->command = process->command;
    event->sheet_num = process->sheet;
    if (process->job >= 0) {
        event->job_id = machine_copy(news, machine->jobs[process->job].job_id);
        event->run_id = machine_copy(news, machine->jobs[process->job].run_id);
    }
}

static inline void machine_kill(struct machine *machine, struct machine_process *process,
                                struct machine_news *news)
{
    bool is_killed = machine_chance(machine, 2);

    machine_note(machine, process, is_killed ? EVENT_KILL : EVENT_EXIT, news);
    struct process_event *event = &news->events[news->tick.events.count - 1];
    event->cpu_seconds = process->cpu_seconds;
    event->peak_rss_mb = process->peak / MACHINE_PAGES_PER_MB;
    if (is_killed) {
        event->signal_num = machine_chance(machine, 50) ? 15 : 9;
        event->sender_pid = machine->processes[0].pid;
        event->sender_command = machine->processes[0].command;
    } else {
        event->exit_code = machine_chance(machine, 4);
    }
    if (process->job >= 0)
        machine->jobs[process->job].reaped_seconds += process->cpu_seconds;
}

static inline void machine_bear(struct machine *machine, int number, struct machine_news *news)
{
    struct machine_process *process = &machine->processes[number];
    bool is_of_job = number >= MACHINE_FIRST_OF_JOBS;
    bool is_first = machine->tick == 1;
    int job = is_of_job ? (number - MACHINE_FIRST_OF_JOBS) / MACHINE_JOB_PROCESSES : -1;
    uint64_t age = is_first ? 1 + machine_random(machine, 80000000)
                            : machine_random(machine, (unsigned)(machine->interval * 100));

    *process = (struct machine_process){
        .pid = machine->next_pid,
        .ppid = is_of_job ? machine->processes[1].pid : 1,
        .command = machine->commands[machine_random(machine, MACHINE_COMMANDS)],
        .start_ticks = machine_now_ticks(machine) - age,
        .job = job,
        .sheet = is_of_job && machine->jobs[job].sheets ? machine->jobs[job].sheet : INT_UNKNOWN,
        .uid = is_of_job ? 1000 : machine_random(machine, 5) * 100,
        .is_busy = machine_chance(machine, MACHINE_BUSY_PERCENT),
        .does_io = machine_chance(machine, 50),
        .has_gpu = number == MACHINE_FIRST_OF_JOBS,
        .is_new = true,
        .state = 'S',
        .rss = 500 + machine_random(machine, 60000),
        .shared = 400 + machine_random(machine, 2000),
        .threads = 1 + machine_random(machine, 8),
        .fds = 4 + machine_random(machine, 60),
        .cpu_percent = is_first ? REAL_UNKNOWN : machine_random(machine, 9000) / 100.0,
        .cpu_seconds = machine_random(machine, is_first ? 900000 : 900) / 1e3,
        .read_bytes = machine_random(machine, 4000) * INT64_C(4096),
    };
    process->vms = process->rss * 3 + machine_random(machine, 100000);
    process->peak = process->rss + machine_random(machine, 2000);
    machine->next_pid = machine->next_pid < 40000 ? machine->next_pid + 1 : 1000;
    if (!is_first)
        machine_note(machine, process, EVENT_SPAWN, news);
}

static inline void machine_live(struct machine *machine, struct machine_process *process)
{
    double was_percent = process->cpu_percent;

    if (process->is_new) {
        process->is_new = false;
        return;
    }
    process->cpu_percent = 0;
    process->state = 'S';
    if (!process->is_busy)
        return;

    double percent = real_is_known(was_percent) ? was_percent : 50;
    percent = fmin(fmax(percent + machine_random(machine, 2001) / 100.0 - 10, 1), 100);
    process->cpu_percent = percent;
    process->cpu_seconds += percent / 100 * machine->interval;
    process->state = machine_chance(machine, 3) ? 'D' : machine_chance(machine, 50) ? 'R' : 'S';
    if (machine_chance(machine, 80))
        process->rss = MAX(process->rss + (int64_t)machine_random(machine, 401) - 200, 200);
    process->peak = MAX(process->peak, process->rss);
    if (machine_chance(machine, 10))
        process->vms += (int64_t)machine_random(machine, 2049) - 1024;
    if (machine_chance(machine, 10))
        process->shared += (int64_t)machine_random(machine, 33) - 16;
    if (machine_chance(machine, 5))
        process->threads = 1 + machine_random(machine, 12);
    if (machine_chance(machine, 10))
        process->fds = 4 + machine_random(machine, 80);
    if (process->does_io) {
        process->read_bytes += machine_random(machine, 100) * INT64_C(4096);
        process->write_bytes += machine_random(machine, 400) * INT64_C(4096);
    }
}

/* ---- jobs ---- */

/* UUIDs of version 7 like sonde's, but the same ones in every run. */
static inline void machine_uuid(struct machine *machine, char into[static UUID_TEXT_SIZE])
{
    uint64_t ms = (uint64_t)(machine->timestamp * 1000);
    unsigned parts[6] = {(unsigned)(ms >> 32), (unsigned)(ms >> 16), (unsigned)ms, 0x7000, 0x8000};

    parts[4] += machine_random(machine, 0x4000);
    parts[5] = machine_random(machine, 0x10000);
    snprintf(into, UUID_TEXT_SIZE, "%04x%04x-%04x-%04x-%04x-%04x%08x", parts[0] & 0xFFFF,
             parts[1] & 0xFFFF, parts[2] & 0xFFFF, parts[3] & 0xFFFF, parts[4] & 0xFFFF,
             parts[5] & 0xFFFF, machine_random(machine, 0xFFFFFFFF));
}

/* Most names are used once, like those that sonde makes; every fourth run belongs to a repeated
 * job. */
static inline void machine_name_job(const struct machine *machine, char *into, size_t size)
{
    static const char *const programs[] = {"make", "pytest", "cargo", "train", "ffmpeg"};

    if (machine->runs % 4 == 0)
        snprintf(into, size, "nightly-%u", machine->runs / 4 % 40);
    else
        snprintf(into, size, "%s-%04x", programs[machine->runs % ARRAY_SIZE(programs)],
                 (machine->runs * 40503u) & 0xFFFF);
}

static inline void machine_report_sheet(struct machine *machine, const struct machine_job *job,
                                        int outcome, struct machine_news *news)
{
    struct sheet *sheet = &news->sheets[news->sheet_count++];

    record_init(&sheet_record, sheet);
    sheet->run_id = machine_copy(news, job->run_id);
    sheet->sheet_num = job->sheet;
    sheet->outcome = outcome;
    *(outcome == OUTCOME_RUNNING ? &sheet->started_at : &sheet->ended_at) = machine->timestamp;
}

static inline void machine_begin_job(struct machine *machine, int number, struct machine_news *news)
{
    struct machine_job *job = &machine->jobs[number];
    struct job *begun = &news->begun[news->begun_count++];
    unsigned length = machine->tick == 1 ? 900 : 800;

    *job = (struct machine_job){.started_at = machine->timestamp};
    job->ends_at = machine->tick + (machine->tick == 1 ? 1 : 100) + machine_random(machine, length);
    job->sheets = machine->runs % 2 ? 4 + machine_random(machine, 12) : 0;
    machine_uuid(machine, job->run_id);
    machine_name_job(machine, job->job_id, sizeof(job->job_id));
    machine->runs++;

    record_init(&job_record, begun);
    begun->run_id = machine_copy(news, job->run_id);
    begun->job_id = machine_copy(news, job->job_id);
    begun->job_type = "make test @parser";
    begun->command = machine->commands[machine_random(machine, MACHINE_COMMANDS)];
    begun->cwd = "/home/builder/projects/parser";
    begun->uid = 1000;
    begun->host = "bench";
    begun->started_at = machine->timestamp;
    begun->outcome = OUTCOME_RUNNING;
    begun->total_sheets = job->sheets ? job->sheets : INT_UNKNOWN;
    if (job->sheets) {
        job->sheet = 1;
        machine_report_sheet(machine, job, OUTCOME_RUNNING, news);
    }
}

static inline void machine_end_job(struct machine *machine, int number, struct machine_news *news)
{
    struct machine_job *job = &machine->jobs[number];
    struct job *ended = &news->ended[news->ended_count++];
    bool is_bad = machine_chance(machine, 10);

    if (job->sheets)
        machine_report_sheet(machine, job, is_bad ? OUTCOME_FAILURE : OUTCOME_SUCCESS, news);
    record_init(&job_record, ended);
    ended->run_id = machine_copy(news, job->run_id);
    ended->job_id = machine_copy(news, job->job_id);
    ended->ended_at = machine->timestamp;
    ended->outcome = is_bad ? OUTCOME_FAILURE : OUTCOME_SUCCESS;
    ended->exit_code = is_bad;
    ended->profile.wall_seconds = machine->timestamp - job->started_at;
    ended->profile.user_seconds = job->reaped_seconds * 0.8;
    ended->profile.system_seconds = job->reaped_seconds * 0.2;
    ended->profile.exactness.cpu_seconds = EXACT;
    ended->profile.collector = "bpf";
}

static inline void machine_step_job(struct machine *machine, int number, struct machine_news *news)
{
    struct machine_job *job = &machine->jobs[number];

    if (!job->sheets || job->sheet == job->sheets || !machine_chance(machine, 2))
        return;
    machine_report_sheet(machine, job, OUTCOME_SUCCESS, news);
    job->sheet++;
    machine_report_sheet(machine, job, OUTCOME_RUNNING, news);
}

/* ---- the snapshot ---- */

static inline void machine_show_process(struct machine *machine, int number,
                                        struct machine_news *news)
{
    const struct machine_process *process = &machine->processes[number];
    struct process_metric *shown = &news->tick.snapshot->processes.items[number];
    uint64_t now_ticks = machine_now_ticks(machine);

    record_init(&process_metric_record, shown);
    shown->pid = process->pid;
    shown->ppid = process->ppid;
    shown->command = process->command;
    shown->state = process->state;
    shown->cpu_percent = process->cpu_percent;
    shown->rss_mb = process->rss / MACHINE_PAGES_PER_MB;
    shown->vms_mb = process->vms / MACHINE_PAGES_PER_MB;
    shown->shared_mb = process->shared / MACHINE_PAGES_PER_MB;
    shown->peak_rss_mb = process->peak / MACHINE_PAGES_PER_MB;
    shown->threads = process->threads;
    shown->open_fds = process->fds;
    shown->fd_limit = 1024;
    shown->start_ticks = process->start_ticks;
    shown->start_time =
        machine->first_timestamp - MACHINE_UP_SECONDS + process->start_ticks / 100.0;
    shown->age_seconds = (double)(now_ticks - process->start_ticks) / 100;
    shown->uid = process->uid;
    shown->cpu_seconds = process->cpu_seconds;
    shown->read_bytes = process->read_bytes;
    shown->write_bytes = process->write_bytes;
    if (process->has_gpu)
        shown->gpu_memory_mb = process->rss / 16;
    if (process->job < 0)
        return;
    shown->job_id = machine->jobs[process->job].job_id;
    shown->run_id = machine->jobs[process->job].run_id;
    shown->sheet_num = process->sheet;
}

/* One in four of the processes of jobs was traced: its last row has its system calls. */
static inline void machine_show_calls(struct machine *machine, struct process_metric *shown)
{
    static struct tally counts[] = {{"read", 1834}, {"write", 920}, {"futex", 4123}, {"mmap", 88}};
    static struct tally shares[] = {{"read", 12.25}, {"write", 3.5}, {"futex", 61.75}};

    if (!shown->run_id || !machine_chance(machine, 25))
        return;
    shown->syscall_counts = (struct tally_list){counts, ARRAY_SIZE(counts)};
    shown->syscall_time_pct = (struct tally_list){shares, ARRAY_SIZE(shares)};
    shown->syscall_source = SYSCALLS_STRACE;
}

static inline void machine_show_job(struct machine *machine, int number, struct machine_news *news)
{
    struct machine_job *job = &machine->jobs[number];
    struct job_usage *usage = &news->tick.snapshot->jobs.items[number];
    double shared = 0;

    record_init(&job_usage_record, usage);
    usage->job_id = job->job_id;
    usage->run_id = job->run_id;
    usage->processes = MACHINE_JOB_PROCESSES;
    usage->cpu_seconds = job->reaped_seconds;
    usage->rss_mb = usage->unique_mb = 0;
    for (int i = 0; i < MACHINE_JOB_PROCESSES; i++) {
        const struct machine_process *process =
            &machine->processes[MACHINE_FIRST_OF_JOBS + number * MACHINE_JOB_PROCESSES + i];
        usage->cpu_seconds += process->cpu_seconds;
        usage->rss_mb += process->rss / MACHINE_PAGES_PER_MB;
        usage->unique_mb += (process->rss - process->shared) / MACHINE_PAGES_PER_MB;
        shared = fmax(shared, process->shared / MACHINE_PAGES_PER_MB);
    }
    usage->unique_mb += shared;
    usage->cpu_percent = (usage->cpu_seconds - job->cpu_before) / machine->interval * 100;
    job->cpu_before = usage->cpu_seconds;
}

static inline void machine_show_progress(struct machine *machine, struct machine_news *news)
{
    struct job_progress_list *list = &news->tick.snapshot->job_progress;

    for (int i = 0; i < MACHINE_JOBS; i++) {
        const struct machine_job *job = &machine->jobs[i];
        if (!job->sheets)
            continue;
        list->items[list->count++] = (struct job_progress){
            .job_id = job->job_id,
            .total_sheets = job->sheets,
            .last_completed_sheet = job->sheet > 1 ? job->sheet - 1 : INT_UNKNOWN,
            .current_sheet = job->sheet,
            .status = "running",
        };
    }
}

static inline void machine_show_gpu(struct machine *machine, struct machine_news *news)
{
    news->tick.snapshot->gpus.items[0] = (struct gpu_metric){
        .index = 0,
        .utilization_pct = machine_random(machine, 1001) / 10.0,
        .memory_used_mb = machine->processes[MACHINE_FIRST_OF_JOBS].rss / 16 + 412,
        .memory_total_mb = 24564,
        .temperature_c = 55 + machine_random(machine, 20),
        .name = "NVIDIA GeForce RTX 3090",
        .vendor = "nvidia",
        .clock_mhz = 1500 + machine_random(machine, 400),
        .power_w = 120 + machine_random(machine, 20000) / 100.0,
    };
    news->tick.snapshot->gpus.count = 1;
}

static inline void machine_show_whole(struct machine *machine, struct snapshot *snapshot)
{
    machine->available_mb = fmax(machine->available_mb + machine_random(machine, 201) - 100, 2000);
    machine->load = fmax(machine->load + machine_random(machine, 41) / 100.0 - 0.2, 0);
    snapshot->timestamp = machine->timestamp;
    snapshot->id = machine->snapshot_id =
        snapshot_id_next(machine->snapshot_id, machine->timestamp, 1);
    snapshot->daemon_pid = 812;
    snapshot->host = "bench";
    snapshot->system_memory_total_mb = 32001.25;
    snapshot->system_memory_available_mb = machine->available_mb;
    snapshot->system_memory_used_mb = 32001.25 - machine->available_mb;
    snapshot->daemon_rss_mb = 9 + machine_random(machine, 64) / 256.0;
    snapshot->load_avg_1 = machine->load;
    snapshot->load_avg_5 = machine->load * 0.9;
    snapshot->load_avg_15 = machine->load * 0.8;
    snapshot->pressure_level = PRESSURE_NONE;
    snapshot->zombie_count = 0;
    snapshot->conductor_uptime_seconds = machine->timestamp - machine->first_timestamp + 1;
    snapshot->cpu_count = 16;
    snapshot->system_cpu_percent = machine_random(machine, 30000) / 100.0;
    snapshot->psi.cpu = (struct psi_line){machine_random(machine, 500) / 100.0, 0};
    snapshot->psi.memory = (struct psi_line){0, 0};
    snapshot->psi.io = (struct psi_line){machine_random(machine, 100) / 100.0,
                                         machine_random(machine, 50) / 100.0};
    snapshot->daemon_cpu_percent = machine_random(machine, 50) / 100.0;
    snapshot->collect_ms = 1 + machine_random(machine, 1000) / 1e3;
    snapshot->process_total = MACHINE_PROCESSES + 40;
    snapshot->running_jobs = MACHINE_JOBS;
}

static inline void *machine_room(struct snapshot *snapshot, size_t bytes)
{
    void *room = arena_alloc(&snapshot->arena, bytes);
    if (!room)
        abort();
    return room;
}

static inline void machine_show(struct machine *machine, struct machine_news *news)
{
    struct snapshot *snapshot = news->tick.snapshot;

    snapshot->processes.items =
        machine_room(snapshot, MACHINE_PROCESSES * sizeof(*snapshot->processes.items));
    snapshot->jobs.items = machine_room(snapshot, MACHINE_JOBS * sizeof(*snapshot->jobs.items));
    snapshot->job_progress.items =
        machine_room(snapshot, MACHINE_JOBS * sizeof(*snapshot->job_progress.items));
    snapshot->gpus.items = machine_room(snapshot, sizeof(*snapshot->gpus.items));
    machine_show_whole(machine, snapshot);
    for (int i = 0; i < MACHINE_PROCESSES; i++) {
        machine_show_process(machine, i, news);
        if (machine->processes[i].is_doomed)
            machine_show_calls(machine, &snapshot->processes.items[i]);
    }
    snapshot->processes.count = MACHINE_PROCESSES;
    for (int i = 0; i < MACHINE_JOBS; i++)
        machine_show_job(machine, i, news);
    snapshot->jobs.count = MACHINE_JOBS;
    machine_show_progress(machine, news);
    snapshot->active_sheets = (int64_t)snapshot->job_progress.count;
    machine_show_gpu(machine, news);
}

/* ---- a tick ---- */

static inline void machine_init(struct machine *machine, double first_timestamp, double interval)
{
    static const char *const shapes[] = {
        "/usr/lib/gcc/x86_64-linux-gnu/12/cc1 -quiet src/parser/unit-%03d.c -O2 -o /tmp/cc%06x.s",
        "/usr/bin/python3 -m worker --queue batch-%d --spool /var/spool/worker/%06x --retry 3",
        "/usr/lib/postgresql/15/bin/postgres: worker-%d: analytics batch 10.0.3.17(%d) SELECT",
        "/opt/app/bin/server --config /etc/app/site-%d.yaml --listen 0.0.0.0:%d --log-level info",
        "node /srv/www/releases/%d/dist/worker.js --shard %d --max-old-space-size=4096 --expose-gc",
        "curl -s --header X-Site:%d https://api.example.org/v2/export?token=%06x&format=json",
    };

    *machine = (struct machine){.random = UINT64_C(88172645463325252),
                                .first_timestamp = first_timestamp,
                                .interval = interval,
                                .next_pid = 1000,
                                .available_mb = 20000,
                                .load = 4};
    for (int i = 0; i < MACHINE_COMMANDS; i++)
        snprintf(machine->commands[i], sizeof(machine->commands[i]), shapes[i % ARRAY_SIZE(shapes)],
                 i, (int)machine_random(machine, 1000000));
}

/* Whether the process ends in the next tick. */
static inline bool machine_is_doomed(struct machine *machine, int number)
{
    int job = machine->processes[number].job;

    if (number < MACHINE_LASTING)
        return false;
    return machine_random(machine, 10000) < MACHINE_DEATHS_PER_10K ||
           (job >= 0 && machine->jobs[job].ends_at == machine->tick + 1);
}

static inline void machine_replace_job(struct machine *machine, int number,
                                       struct machine_news *news)
{
    int first = MACHINE_FIRST_OF_JOBS + number * MACHINE_JOB_PROCESSES;

    if (machine->tick > 1) {
        for (int i = 0; i < MACHINE_JOB_PROCESSES; i++)
            machine_kill(machine, &machine->processes[first + i], news);
        machine_end_job(machine, number, news);
    }
    machine_begin_job(machine, number, news);
    for (int i = 0; i < MACHINE_JOB_PROCESSES; i++)
        machine_bear(machine, first + i, news);
}

/* Makes the next tick. The content of `news` is valid until the next call; machine_forget() frees
 * it. */
static inline void machine_next(struct machine *machine, struct machine_news *news)
{
    memset(news, 0, offsetof(struct machine_news, events));
    news->tick.snapshot = snapshot_new();
    if (!news->tick.snapshot)
        abort();
    machine->timestamp = machine->first_timestamp + machine->tick * machine->interval +
                         machine_random(machine, 3) / 1e3;
    machine->tick++;

    for (int i = 0; i < MACHINE_FIRST_OF_JOBS && machine->tick == 1; i++)
        machine_bear(machine, i, news);
    for (int i = 0; i < MACHINE_JOBS; i++) {
        if (machine->tick == 1 || machine->tick >= machine->jobs[i].ends_at)
            machine_replace_job(machine, i, news);
        machine_step_job(machine, i, news);
    }
    for (int i = 0; i < MACHINE_PROCESSES; i++) {
        struct machine_process *process = &machine->processes[i];
        if (process->is_doomed) {
            machine_kill(machine, process, news);
            machine_bear(machine, i, news);
        }
        machine_live(machine, process);
        process->is_doomed = machine_is_doomed(machine, i);
    }
    machine_show(machine, news);
    news->tick.events.items = news->events;
}

static inline void machine_forget(struct machine_news *news)
{
    snapshot_free(news->tick.snapshot);
    news->tick.snapshot = NULL;
}

/* ---- into the store ---- */

#define MACHINE_KEEP_ALL (365 * 24.0) /* hours at full resolution: nothing expires */

static inline struct store *machine_open_store(const char *path, double interval,
                                               double full_resolution_hours)
{
    const struct store_options options = {
        .path = path,
        .retention = {full_resolution_hours, 365, 365, 365},
        .host = "bench",
        .boot_id = "7d3c3f52-5c1e-4e5b-9c57-0d5d3c6b8f11",
        .collector = "bpf",
        .interval_seconds = interval,
    };
    struct store_error error;
    struct store *store;

    if (store_open(&options, &store, &error) < 0) {
        fprintf(stderr, "%s\n", error.text);
        exit(1);
    }
    return store;
}

static inline void machine_check(struct store *store, int result)
{
    if (result >= 0)
        return;
    fprintf(stderr, "%s\n", store_error(store));
    exit(1);
}

/* Runs and steps that begin, and those that end. */
static inline void machine_begin_jobs(struct store *store, const struct machine_news *news)
{
    char job_id[JOB_ID_NUMBERED_MAX_BYTES];

    for (size_t i = 0; i < news->begun_count; i++)
        machine_check(store, store_begin_job(store, &news->begun[i], job_id));
    for (size_t i = 0; i < news->sheet_count; i++)
        machine_check(store, store_write_sheet(store, &news->sheets[i]));
}

static inline void machine_end_jobs(struct store *store, const struct machine_news *news)
{
    for (size_t i = 0; i < news->ended_count; i++)
        machine_check(store, store_finish_job(store, &news->ended[i]));
}

static inline void machine_write(struct store *store, struct machine_news *news)
{
    machine_begin_jobs(store, news);
    machine_check(store, store_write_tick(store, &news->tick));
    machine_end_jobs(store, news);
}
