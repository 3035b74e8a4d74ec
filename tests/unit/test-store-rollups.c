/* The roll-ups of minutes, runs and steps against figures computed here from all samples. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "store-world.h"

#define TICKS 200

static void write_all(struct store *store, struct world *world, struct written *written,
                      size_t count)
{
    while (written->count < count)
        write_next(store, world, written);
}

/* ---- minutes, computed from samples ---- */

static int64_t minute_of(const struct snapshot *snapshot)
{
    return (int64_t)floor(snapshot->timestamp / 60);
}

/* The samples of one row of `proc` within the minute. */
struct stretch {
    const struct process_metric *samples[TICKS];
    size_t count;
    size_t last_at; /* snapshot of its last sample */
};

struct minute {
    const struct written *written;
    size_t first, last; /* snapshots */
    struct stretch stretches[200];
    size_t count;
};

static bool is_same_stretch(const struct process_metric *a, const struct process_metric *b)
{
    static const char *const names[] = {"pid",      "ppid",           "command",
                                        "uid",      "sheet_num",      "start_time",
                                        "fd_limit", "syscall_source", "run_id"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        const struct field *field = record_find(&process_metric_record, names[i]);
        if (field->type == FIELD_TEXT) {
            const char *x = *(const char *const *)((const char *)a + field->offset);
            const char *y = *(const char *const *)((const char *)b + field->offset);
            if (x != y && (!x || !y || strcmp(x, y) != 0))
                return false;
        } else if (memcmp((const char *)a + field->offset, (const char *)b + field->offset,
                          field->type == FIELD_ENUM ? sizeof(int) : sizeof(int64_t)) != 0) {
            return false;
        }
    }
    return a->start_ticks == b->start_ticks;
}

static void add_sample(struct minute *minute, const struct process_metric *process, size_t at)
{
    struct stretch *stretch = NULL;

    for (size_t i = 0; i < minute->count && !stretch; i++) {
        struct stretch *candidate = &minute->stretches[i];
        if (candidate->last_at + 1 == at &&
            is_same_stretch(candidate->samples[candidate->count - 1], process))
            stretch = candidate;
    }
    if (!stretch) {
        assert_true(minute->count < ARRAY_SIZE(minute->stretches));
        stretch = &minute->stretches[minute->count++];
        stretch->count = 0;
    }
    stretch->samples[stretch->count++] = process;
    stretch->last_at = at;
}

static int by_pid_and_time(const void *a, const void *b)
{
    const struct stretch *x = a, *y = b;

    if (x->samples[0]->pid != y->samples[0]->pid)
        return x->samples[0]->pid < y->samples[0]->pid ? -1 : 1;
    return x->last_at < y->last_at ? -1 : 1;
}

static void collect_minute(struct minute *minute, const struct written *written, size_t first)
{
    *minute = (struct minute){.written = written, .first = first, .last = first};
    while (minute->last + 1 < written->count &&
           minute_of(written->items[minute->last + 1]) == minute_of(written->items[first]))
        minute->last++;
    for (size_t at = minute->first; at <= minute->last; at++)
        for (size_t i = 0; i < written->items[at]->processes.count; i++)
            add_sample(minute, &written->items[at]->processes.items[i], at);
    qsort(minute->stretches, minute->count, sizeof(minute->stretches[0]), by_pid_and_time);
}

/* At the resolution of stored samples. */
static double stored(const struct field *field, double value)
{
    return field->resolution ? round(value / field->resolution) * field->resolution : value;
}

static double value_of(const struct field *field, const void *object)
{
    const char *value = (const char *)object + field->offset;

    if (field->type == FIELD_REAL)
        return stored(field, *(const double *)value);
    int64_t number = *(const int64_t *)value;
    return int_is_known(number) ? (double)number : REAL_UNKNOWN;
}

static double mean_of(const struct field *field, const void *const *samples, size_t count)
{
    double sum = 0, known = 0;

    for (size_t i = 0; i < count; i++) {
        double value = value_of(field, samples[i]);
        if (real_is_known(value)) {
            sum += value;
            known++;
        }
    }
    return known > 0 ? sum / known : REAL_UNKNOWN;
}

static double max_of(const struct field *field, const void *const *samples, size_t count)
{
    double max = REAL_UNKNOWN;

    for (size_t i = 0; i < count; i++)
        max = fmax(max, value_of(field, samples[i]));
    return max;
}

static bool is_near(double expected, double found, double tolerance)
{
    return isnan(expected) ? isnan(found) : fabs(expected - found) <= tolerance;
}

/* One record of a minute against its samples. */
static void check_rolled(const struct record *record, const void *const *samples, size_t count,
                         const void *found)
{
    for (size_t i = 0; i < record->field_count; i++) {
        const struct field *field = &record->fields[i];
        const struct record one = {.name = record->name, .fields = field, .field_count = 1};

        if (field->type == FIELD_RECORD) {
            const void *parts[TICKS];
            for (size_t k = 0; k < count; k++)
                parts[k] = (const char *)samples[k] + field->offset;
            check_rolled(field->record, parts, count, (const char *)found + field->offset);
        } else if (field->type >= FIELD_RECORDS && field->type != FIELD_RECORD) {
            /* lists are not rolled up, or are compared separately */
            assert_true(field->type != FIELD_TALLY || !is_stored(field, found));
        } else if (field->rollup == ROLLUP_MEAN) {
            double mean = mean_of(field, samples, count), half = field->resolution / 2;
            if (!is_near(mean, value_of(field, found), half ? half * 1.001 : 0.5))
                fail_msg("%s.%s: the mean is %.9g, not %.9g", record->name, field->name, mean,
                         value_of(field, found));
        } else if (strcmp(field->name, "resolution_seconds") != 0 &&
                   strcmp(field->name, "id") != 0) {
            assert_same_record(&one, samples[count - 1], found, "last value", i);
        }
    }
}

static void check_maxima(sqlite3_stmt *row, const struct stretch *stretch)
{
    static const char *const names[] = {"cpu_percent", "rss_mb"};

    for (int i = 0; i < 2; i++) {
        const struct field *field = record_find(&process_metric_record, names[i]);
        double max = max_of(field, (const void *const *)stretch->samples, stretch->count);
        double found = sqlite3_column_type(row, i) == SQLITE_NULL ? REAL_UNKNOWN
                                                                  : sqlite3_column_double(row, i);
        if (!is_near(max, found, field->resolution / 1000))
            fail_msg("the largest %s is %.9g, not %.9g", names[i], max, found);
    }
}

static void check_stretches(sqlite3 *handle, const struct minute *minute,
                            const struct snapshot *found)
{
    sqlite3_stmt *rows = NULL;

    assert_int_equal(sqlite3_prepare_v2(handle,
                                        "SELECT max_cpu_percent, max_rss_mb FROM process_metrics"
                                        " WHERE snapshot_id = ?1 ORDER BY pid, id",
                                        -1, &rows, NULL),
                     SQLITE_OK);
    sqlite3_bind_int64(rows, 1, found->id);
    assert_int_equal(found->processes.count, minute->count);
    for (size_t i = 0; i < minute->count; i++) {
        const struct stretch *stretch = &minute->stretches[i];
        check_rolled(&process_metric_record, (const void *const *)stretch->samples, stretch->count,
                     &found->processes.items[i]);
        assert_int_equal(sqlite3_step(rows), SQLITE_ROW);
        check_maxima(rows, stretch);
    }
    sqlite3_finalize(rows);
}

static void check_gpus(const struct minute *minute, const struct snapshot *found)
{
    size_t count = 0;

    for (int64_t index = 0; index < 4; index++) {
        const void *samples[TICKS];
        size_t seen = 0;
        for (size_t at = minute->first; at <= minute->last; at++) {
            const struct gpu_list *gpus = &minute->written->items[at]->gpus;
            if (index < (int64_t)gpus->count)
                samples[seen++] = &gpus->items[index];
        }
        if (!seen)
            continue;
        assert_true(count < found->gpus.count);
        check_rolled(&gpu_metric_record, samples, seen, &found->gpus.items[count++]);
    }
    assert_int_equal(found->gpus.count, count);
}

static const struct job_usage *find_usage(const struct snapshot *snapshot, const char *run_id)
{
    for (size_t i = 0; i < snapshot->jobs.count; i++)
        if (strcmp(snapshot->jobs.items[i].run_id, run_id) == 0)
            return &snapshot->jobs.items[i];
    return NULL;
}

static void check_usages(const struct minute *minute, const struct world *world,
                         const struct snapshot *found)
{
    size_t count = 0;

    for (size_t i = 0; i < WORLD_RUNS; i++) {
        const void *samples[TICKS];
        size_t seen = 0;
        for (size_t at = minute->first; at <= minute->last; at++) {
            const struct job_usage *usage =
                find_usage(minute->written->items[at], world->runs[i].run_id);
            if (usage)
                samples[seen++] = usage;
        }
        const struct job_usage *rolled = find_usage(found, world->runs[i].run_id);
        assert_true(!seen == !rolled);
        if (!seen)
            continue;
        check_rolled(&job_usage_record, samples, seen, rolled);
        count++;
    }
    assert_int_equal(found->jobs.count, count);
}

static void check_minutes(struct store_fixture *fixture, const struct world *world,
                          const struct written *written)
{
    _cleanup_(store_reader_closep) struct store_reader *reader = fixture_reader(fixture);
    sqlite3 *handle = fixture_sqlite(fixture);
    struct snapshot_list list = {0};
    struct minute *minute = malloc(sizeof(*minute));
    size_t number = 0;

    assert_int_equal(store_read_snapshots(reader, 0, TICKS, &list), 0);
    for (size_t first = 0; first < written->count; first = minute->last + 1) {
        collect_minute(minute, written, first);
        assert_true(number < list.count);
        const struct snapshot *found = list.items[number++];
        assert_true(found->resolution_seconds == 60);
        assert_int_equal(found->zombie_pids.count, 0);
        assert_int_equal(found->job_progress.count, 0);
        check_rolled(&snapshot_record, (const void *const *)(written->items + first),
                     minute->last - first + 1, found);
        check_stretches(handle, minute, found);
        check_gpus(minute, found);
        check_usages(minute, world, found);
    }
    assert_int_equal(list.count, number);
    snapshot_list_done(&list);
    sqlite3_close(handle);
    free(minute);
}

/* A day and a little later. */
static void delete_samples(struct store_fixture *fixture, const struct world *world)
{
    struct store *store = fixture_open(fixture);

    assert_int_equal(store_retain(store, world->now + 24 * 3600 + 61), 0);
    assert_int_equal(store_close(store), 0);
}

static void test_minutes(void **state)
{
    struct written written = {0};
    struct world world;

    world_init_tame(&world, 31);
    struct store *store = fixture_open(*state);
    write_all(store, &world, &written, TICKS);
    assert_int_equal(store_close(store), 0);
    delete_samples(*state, &world);
    check_minutes(*state, &world, &written);
    written_done(&written);
    world_done(&world);
}

/* The writer dies after some ticks; the next one recovers its session. */
static void die_and_check(struct store_fixture *fixture, size_t count)
{
    struct written written = {0};
    struct world world;

    world_init_tame(&world, 32);
    pid_t pid = fork();
    if (pid == 0) {
        write_all(fixture_open(fixture), &world, &written, count);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    while (written.count < count)
        written_elsewhere(&written, &world, pid);
    delete_samples(fixture, &world);
    check_minutes(fixture, &world, &written);
    written_done(&written);
    world_done(&world);
}

static void test_minutes_after_a_crash(void **state)
{
    static const size_t counts[] = {1, 2, 7, 60, 61, 62, 63, 77, 100, 131};

    for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
        struct store_fixture *fixture;
        store_fixture_set_up((void **)&fixture);
        die_and_check(fixture, counts[i]);
        store_fixture_tear_down((void **)&fixture);
    }
    (void)state;
}

/* ---- the figures of runs and steps, computed from samples ---- */

#define SHEETS 3

struct figures {
    struct job_profile profile;
    struct sheet sheets[SHEETS];
};

static const struct process_metric *find_process(const struct snapshot *snapshot,
                                                 const struct process_metric *like)
{
    for (size_t i = 0; snapshot && i < snapshot->processes.count; i++)
        if (snapshot->processes.items[i].pid == like->pid &&
            snapshot->processes.items[i].start_ticks == like->start_ticks)
            return &snapshot->processes.items[i];
    return NULL;
}

static bool is_of(const struct process_metric *process, const char *run_id)
{
    return process && process->run_id && strcmp(process->run_id, run_id) == 0;
}

/* The last known value of a counter before a snapshot, while the process lived without a gap. */
static double known_before(const struct written *written, size_t at,
                           const struct process_metric *process, const struct field *field)
{
    while (at-- > 0) {
        const struct process_metric *earlier = find_process(written->items[at], process);
        if (!earlier)
            break;
        if (real_is_known(value_of(field, earlier)))
            return value_of(field, earlier);
    }
    return 0;
}

static double growth(const struct written *written, size_t at, const struct process_metric *process,
                     const char *name)
{
    const struct field *field = record_find(&process_metric_record, name);
    double now = value_of(field, process);

    return now - fmin(now, known_before(written, at, process, field));
}

static void add_known(int64_t *total, double more)
{
    if (real_is_known(more))
        *total = (int_is_known(*total) ? *total : 0) + (int64_t)more;
}

static void raise_to(double *value, double candidate)
{
    *value = fmax(*value, candidate);
}

/* Adds a process of the run; returns whether it counts as a zombie. */
static bool add_process(struct figures *figures, const struct written *written, size_t at,
                        const struct process_metric *process, double *sheet_cpu)
{
    const struct process_metric *before = find_process(at ? written->items[at - 1] : NULL, process);
    bool was_here = is_of(before, process->run_id);
    double peak = fmax(process->rss_mb, process->peak_rss_mb);

    raise_to(&figures->profile.peak_rss_mb, peak);
    add_known(&figures->profile.unique_pid_count, !was_here);
    add_known(&figures->profile.read_bytes, growth(written, at, process, "read_bytes"));
    add_known(&figures->profile.write_bytes, growth(written, at, process, "write_bytes"));
    if (int_is_known(process->sheet_num)) {
        struct sheet *sheet = &figures->sheets[process->sheet_num];
        double cpu = growth(written, at, process, "cpu_seconds");
        raise_to(&sheet->peak_rss_mb, peak);
        if (cpu > 0)
            sheet->cpu_seconds = (isnan(sheet->cpu_seconds) ? 0 : sheet->cpu_seconds) + cpu;
        if (real_is_known(process->cpu_percent)) {
            sheet_cpu[process->sheet_num] += process->cpu_percent;
            raise_to(&sheet->max_cpu_pct, sheet_cpu[process->sheet_num]);
        }
    }
    return was_here && before->state == 'Z' && process->state == 'Z';
}

static void add_snapshot(struct figures *figures, const struct written *written, size_t at,
                         const char *run_id)
{
    const struct snapshot *snapshot = written->items[at];
    const struct job_usage *usage = find_usage(snapshot, run_id);
    double rss = 0, sheet_cpu[SHEETS] = {0};
    int64_t zombies = 0;
    bool is_here = usage;

    for (size_t i = 0; i < snapshot->processes.count; i++) {
        const struct process_metric *process = &snapshot->processes.items[i];
        if (!is_of(process, run_id))
            continue;
        is_here = true;
        rss += isnan(process->rss_mb) ? 0 : process->rss_mb;
        zombies += add_process(figures, written, at, process, sheet_cpu);
    }
    if (!is_here)
        return;
    add_known(&figures->profile.num_samples, 1);
    raise_to(&figures->profile.peak_total_mb, rss);
    figures->profile.zombie_count = MAX(figures->profile.zombie_count, zombies);
    if (!usage)
        return;
    raise_to(&figures->profile.cpu_seconds, usage->cpu_seconds);
    raise_to(&figures->profile.peak_total_mb, usage->rss_mb);
    raise_to(&figures->profile.peak_unique_mb, usage->unique_mb);
    raise_to(&figures->profile.max_cpu_pct, usage->cpu_percent);
}

static void compute_figures(struct figures *figures, const struct written *written,
                            const char *run_id)
{
    record_init(&job_profile_record, &figures->profile);
    for (size_t i = 0; i < SHEETS; i++) {
        record_init(&sheet_record, &figures->sheets[i]);
        figures->sheets[i].sheet_num = (int64_t)i;
        figures->sheets[i].run_id = run_id;
    }
    for (size_t at = 0; at < written->count; at++)
        add_snapshot(figures, written, at, run_id);
}

/* Sums of rounded values are not exactly equal. */
static void check_figures(const struct record *record, const void *expected, const void *found,
                          const char *const *names)
{
    for (; *names; names++) {
        const struct field *field = record_find(record, *names);
        double a = value_of(field, expected), b = value_of(field, found);
        if (!is_near(a, b, field->resolution + fabs(a) * 1e-9))
            fail_msg("%s is %.9g, not %.9g", *names, a, b);
    }
}

static void check_run(struct store_fixture *fixture, const struct written *written,
                      const char *run_id)
{
    static const char *const of_run[] = {
        "peak_rss_mb", "cpu_seconds", "unique_pid_count", "peak_total_mb", "peak_unique_mb",
        "read_bytes",  "write_bytes", "max_cpu_pct",      "zombie_count",  "num_samples",
        NULL,
    };
    static const char *const of_sheet[] = {"peak_rss_mb", "max_cpu_pct", "cpu_seconds", NULL};
    _cleanup_(store_reader_closep) struct store_reader *reader = fixture_reader(fixture);
    struct sheet_list sheets = {0};
    struct arena arena = {0};
    struct figures figures;
    struct job job;

    compute_figures(&figures, written, run_id);
    assert_int_equal(store_find_job(reader, run_id, &arena, &job), 0);
    check_figures(&job_profile_record, &figures.profile, &job.profile, of_run);
    assert_int_equal(store_read_sheets(reader, run_id, &arena, &sheets), 0);
    for (size_t i = 0; i < sheets.count; i++) {
        assert_in_range(sheets.items[i].sheet_num, 0, SHEETS - 1);
        check_figures(&sheet_record, &figures.sheets[sheets.items[i].sheet_num], &sheets.items[i],
                      of_sheet);
    }
    arena_done(&arena);
}

static void check_runs(struct store_fixture *fixture, const struct world *world,
                       const struct written *written)
{
    for (size_t i = 0; i < WORLD_RUNS; i++)
        check_run(fixture, written, world->runs[i].run_id);
}

static void test_figures_of_runs(void **state)
{
    struct written written = {0};
    struct world world;

    world_init_tame(&world, 33);
    struct store *store = fixture_open(*state);
    write_all(store, &world, &written, TICKS);
    assert_int_equal(store_close(store), 0);
    check_runs(*state, &world, &written);
    written_done(&written);
    world_done(&world);
}

/* A snapshot that cannot be stored, because a run_id in it is too long. */
static void fail_to_write(struct store *store, const struct snapshot *like)
{
    struct process_metric processes[WORLD_PIDS + 1];
    struct snapshot bad = *like;

    memcpy(processes, like->processes.items, like->processes.count * sizeof(processes[0]));
    processes[like->processes.count] = (struct process_metric){
        .pid = 9999,
        .job_id = "bad",
        .run_id = "this is far too long to be the number of any run there ever was",
    };
    bad.processes.items = processes;
    bad.processes.count = like->processes.count + 1;
    assert_int_equal(store_write_tick(store, &(struct tick){.snapshot = &bad}), -EINVAL);
}

/* Samples of rolled-back transactions count exactly once. */
static void test_figures_after_failures(void **state)
{
    struct written written = {0};
    struct world world;

    world_init_tame(&world, 34);
    struct store *store = fixture_open(*state);
    while (written.count < TICKS) {
        struct snapshot *snapshot = world_tick(&world);
        written_add(&written, snapshot);
        if (random_once_in(&world.random, 5))
            fail_to_write(store, snapshot);
        write_snapshot(store, snapshot);
    }
    assert_int_equal(store_close(store), 0);
    check_runs(*state, &world, &written);

    struct store_reader *reader = fixture_reader(*state);
    struct snapshot_list list = {0};
    assert_int_equal(store_read_snapshots(reader, 0, TICKS + 1, &list), 0);
    assert_same_snapshots(written.items, written.count, &list);
    snapshot_list_done(&list);
    store_reader_close(reader);
    written_done(&written);
    world_done(&world);
}

/* ---- events ---- */

#define EVENTS 300

struct event_counts {
    int64_t of_type[EVENT_OOM + 1];
    int64_t failed;
};

/* Some events are of another run, of no run, or of a step, which is not a process. */
static void make_events(struct world *world, struct process_event *events,
                        struct event_counts *counts)
{
    for (size_t i = 0; i < EVENTS; i++) {
        struct process_event *event = &events[i];
        random_event(&world->random, &world->arena, event);
        event->is_step = i % 10 == 1 ? TRUTH_YES : TRUTH_UNKNOWN;
        event->exit_code = i % 3 ? event->exit_code : 0;
        event->run_id = i % 2 ? world->runs[0].run_id : NULL;
        event->job_id = i % 2 ? world->runs[0].job_id : NULL;
        if (i % 2 == 0 || event->is_step)
            continue;
        counts->of_type[event->event_type]++;
        counts->failed += (event->event_type == EVENT_EXIT && int_is_known(event->exit_code) &&
                           event->exit_code != 0);
    }
}

static void write_events(struct store *store, struct process_event *events)
{
    for (size_t i = 0; i < EVENTS; i += 50)
        assert_int_equal(store_write_tick(store, &(struct tick){.events = {events + i, 50}}), 0);
}

static void test_events_are_counted(void **state)
{
    struct process_event events[EVENTS];
    struct event_counts counts = {0};
    struct job job;
    struct world world;

    world_init_tame(&world, 35);
    make_events(&world, events, &counts);
    struct store *store = fixture_open(*state);
    write_events(store, events);
    assert_int_equal(store_close(store), 0);

    struct store_reader *reader = fixture_reader(*state);
    assert_int_equal(store_find_job(reader, world.runs[0].run_id, &world.arena, &job), 0);
    assert_int_equal(job.profile.processes, counts.of_type[EVENT_SPAWN]);
    assert_int_equal(job.profile.exit_count,
                     counts.of_type[EVENT_EXIT] + counts.of_type[EVENT_KILL]);
    assert_int_equal(job.profile.failed_exit_count, counts.failed);
    assert_int_equal(job.profile.signal_count, counts.of_type[EVENT_SIGNAL]);
    assert_int_equal(job.profile.kill_count, counts.of_type[EVENT_KILL]);
    assert_int_equal(job.profile.oom_count, counts.of_type[EVENT_OOM]);
    store_reader_close(reader);
    world_done(&world);
}

/* Figures that a dead daemon had not written are computed from the events. */
static void test_events_are_counted_after_a_crash(void **state)
{
    struct process_event events[EVENTS];
    struct event_counts counts = {0};
    struct job job;
    struct world world;

    world_init_tame(&world, 36);
    make_events(&world, events, &counts);
    pid_t pid = fork();
    if (pid == 0) {
        struct store *store = fixture_open(*state);
        write_snapshot(store, world_tick(&world));
        write_events(store, events);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(store_close(fixture_open(*state)), 0);
    struct store_reader *reader = fixture_reader(*state);
    assert_int_equal(store_find_job(reader, world.runs[0].run_id, &world.arena, &job), 0);
    assert_int_equal(job.profile.processes, counts.of_type[EVENT_SPAWN]);
    assert_int_equal(job.profile.exit_count,
                     counts.of_type[EVENT_EXIT] + counts.of_type[EVENT_KILL]);
    store_reader_close(reader);
    world_done(&world);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, store_fixture_set_up, store_fixture_tear_down)
    const struct CMUnitTest tests[] = {
        T(test_minutes),
        cmocka_unit_test(test_minutes_after_a_crash),
        T(test_figures_of_runs),
        T(test_figures_after_failures),
        T(test_events_are_counted),
        T(test_events_are_counted_after_a_crash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
