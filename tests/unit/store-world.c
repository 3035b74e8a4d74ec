#include "store-world.h"

#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/macros.h"

/* ---- a database ---- */

double fixture_now;
static int64_t last_id;

void fixture_stamp(struct snapshot *snapshot)
{
    fixture_now += FIXTURE_INTERVAL;
    last_id = snapshot_id_next(last_id, fixture_now, 1);
    snapshot->timestamp = fixture_now;
    snapshot->id = last_id;
}

int store_fixture_set_up(void **state)
{
    struct store_fixture *fixture = calloc(1, sizeof(*fixture));

    fixture_now = WORLD_START;
    last_id = 0;
    *state = fixture;
    if (!fixture)
        return -1;
    strcpy(fixture->dir, "/tmp/sonde-unit.XXXXXX");
    if (!mkdtemp(fixture->dir))
        return -1;
    snprintf(fixture->path, sizeof(fixture->path), "%s/monitor.db", fixture->dir);
    snprintf(fixture->jsonl_path, sizeof(fixture->jsonl_path), "%s/log.jsonl", fixture->dir);
    fixture->options = (struct store_options){
        .path = fixture->path,
        .jsonl_max_bytes = INT64_C(1) << 30,
        .retention = {.full_resolution_hours = 24,
                      .downsampled_days = 30,
                      .events_days = 90,
                      .jobs_days = 365},
        .host = "host.example",
        .boot_id = "7a8f2f8e-0000-4000-8000-000000000001",
        .collector = "procfs",
        .interval_seconds = FIXTURE_INTERVAL,
    };
    return 0;
}

int store_fixture_tear_down(void **state)
{
    struct store_fixture *fixture = *state;
    char command[128];

    snprintf(command, sizeof(command), "rm -rf '%s'", fixture->dir);
    free(fixture);
    return system(command);
}

void fixture_remove_sides(const struct store_fixture *fixture)
{
    static const char *const suffixes[] = {"-wal", "-shm", "-journal", "-lock", "-ballast"};
    char name[128];

    for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
        snprintf(name, sizeof(name), "%s%s", fixture->path, suffixes[i]);
        unlink(name);
    }
}

struct store *fixture_open(const struct store_fixture *fixture)
{
    struct store *store = NULL;
    struct store_error error = {0};

    if (store_open(&fixture->options, &store, &error) < 0)
        fail_msg("%s", error.text);
    return store;
}

void fixture_die_after(const struct store_fixture *fixture, void (*act)(struct store *store),
                       double seconds)
{
    int status;

    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        act(fixture_open(fixture));
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    fixture_now += seconds;
}

struct store_reader *fixture_reader(const struct store_fixture *fixture)
{
    struct store_reader *reader = NULL;
    struct store_error error = {0};

    if (store_reader_open(fixture->path, &reader, &error) < 0)
        fail_msg("%s", error.text);
    return reader;
}

sqlite3 *fixture_sqlite(const struct store_fixture *fixture)
{
    sqlite3 *handle = NULL;

    assert_int_equal(sqlite3_open(fixture->path, &handle), SQLITE_OK);
    sqlite3_busy_timeout(handle, 5000);
    return handle;
}

void run_sql(sqlite3 *handle, const char *sql)
{
    char *error = NULL;

    if (sqlite3_exec(handle, sql, NULL, NULL, &error) != SQLITE_OK)
        fail_msg("%s: %s", sql, error);
}

static sqlite3_stmt *first_row(sqlite3 *handle, const char *sql)
{
    sqlite3_stmt *statement = NULL;

    if (sqlite3_prepare_v2(handle, sql, -1, &statement, NULL) != SQLITE_OK ||
        sqlite3_step(statement) != SQLITE_ROW)
        fail_msg("%s: %s", sql, sqlite3_errmsg(handle));
    return statement;
}

int64_t ask_int(sqlite3 *handle, const char *sql)
{
    sqlite3_stmt *row = first_row(handle, sql);
    int64_t value = sqlite3_column_int64(row, 0);

    sqlite3_finalize(row);
    return value;
}

double ask_real(sqlite3 *handle, const char *sql)
{
    sqlite3_stmt *row = first_row(handle, sql);
    double value = sqlite3_column_double(row, 0);

    sqlite3_finalize(row);
    return value;
}

/* ---- random values ---- */

uint64_t random_next(struct chance *random)
{
    /* splitmix64 */
    uint64_t z = (random->state += UINT64_C(0x9E3779B97F4A7C15));

    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

uint64_t random_below(struct chance *random, uint64_t limit)
{
    return random_next(random) % limit;
}

bool random_once_in(struct chance *random, uint64_t times)
{
    return random_below(random, times) == 0;
}

static double random_unit(struct chance *random)
{
    return (double)(random_next(random) >> 11) * 0x1p-53;
}

static int64_t random_int(struct chance *random)
{
    if (random->is_tame)
        return random_once_in(random, 10) ? INT_UNKNOWN : (int64_t)random_below(random, 100000);
    switch (random_below(random, 10)) {
    case 0: return INT_UNKNOWN;
    case 1: return 0;
    case 2: return -1 - (int64_t)random_below(random, 1000);
    case 3: return INT64_MAX - (int64_t)random_below(random, 3);
    case 4: return INT64_MIN + 1 + (int64_t)random_below(random, 3);
    default: return (int64_t)random_below(random, 100000);
    }
}

static double random_real(struct chance *random)
{
    double sign = random_once_in(random, 2) ? 1 : -1;

    if (random->is_tame)
        return random_once_in(random, 10) ? REAL_UNKNOWN : random_unit(random) * 1000;
    switch (random_below(random, 14)) {
    case 0: return REAL_UNKNOWN;
    case 1: return 0;
    case 2: return sign * 0.0;
    case 3: return sign * random_unit(random) * 1e-9;
    case 4: return sign * (random_unit(random) + 1) * 1e12;
    case 5: return sign * (random_unit(random) + 1) * 1e300;
    case 6: return sign * (double)INFINITY;
    case 7: return sign * random_unit(random) * 100;
    /* exactly between two steps */
    case 8: return (double)random_below(random, 100000) + 0.005;
    default: return random_unit(random) * 10000;
    }
}

static const char *const hostile_texts[] = {
    "",
    " ",
    "make -j8 all",
    "line\nbreak\ttab\rreturn",
    "\x1b[31mred\x1b[0m \x07 \x01\x02\x1f\x7f",
    "quo'te \"double\" `back` \\slash\\ %s%n ; DROP TABLE proc; --",
    "Zürich ½ 東京 \xF0\x9F\x90\xA7 \xE2\x80\xAE",
    "{\"a\": [1, null]}",
    "null",
    "NULL",
    "0",
    "-1.5",
};

static const char *random_text(struct chance *random, struct arena *arena)
{
    char text[4096];

    switch (random_below(random, 8)) {
    case 0: return NULL;
    case 1:
        snprintf(text, sizeof(text), "worker %llu --id=%llu",
                 (unsigned long long)random_below(random, 50),
                 (unsigned long long)random_below(random, 50));
        break;
    case 2: {
        size_t length = random_below(random, sizeof(text));
        memset(text, 'x', length);
        text[length] = '\0';
        break;
    }
    default: return hostile_texts[random_below(random, ARRAY_SIZE(hostile_texts))];
    }
    return arena_strdup(arena, text);
}

static struct tally_list random_tally(struct chance *random, struct arena *arena)
{
    struct tally_list list = {0};

    if (random_once_in(random, 3))
        return list;
    size_t count = random_below(random, 4);
    list.items = arena_alloc(arena, (count + 1) * sizeof(struct tally));
    size_t name = random_below(random, ARRAY_SIZE(hostile_texts)); /* each name only once */
    for (; list.count < count; list.count++)
        list.items[list.count] = (struct tally){
            .name = hostile_texts[(name + list.count) % ARRAY_SIZE(hostile_texts)],
            .value = random_once_in(random, 4) ? 0 : random_unit(random) * 1e6,
        };
    return list;
}

static struct any_list random_list(struct chance *random, const struct field *field,
                                   struct arena *arena)
{
    size_t size = field->record ? field->record->size : 8; /* an int64_t, or a pointer */
    struct any_list list = {.count = random_below(random, 4)};

    list.items = arena_alloc(arena, (list.count + 1) * size);
    for (size_t i = 0; i < list.count; i++) {
        char *item = (char *)list.items + i * size;
        if (field->record)
            random_record(random, field->record, arena, item);
        else if (field->type == FIELD_INTS)
            *(int64_t *)item = (int64_t)random_below(random, 100000);
        else
            *(const char **)item = hostile_texts[random_below(random, ARRAY_SIZE(hostile_texts))];
    }
    return list;
}

static void random_value(struct chance *random, const struct field *field, struct arena *arena,
                         void *value)
{
    switch (field->type) {
    case FIELD_INT: *(int64_t *)value = random_int(random); break;
    case FIELD_REAL: *(double *)value = random_real(random); break;
    case FIELD_TEXT: *(const char **)value = random_text(random, arena); break;
    case FIELD_CHAR: *(char *)value = "RSDZTI\0"[random_below(random, 7)]; break;
    case FIELD_ENUM: *(int *)value = (int)random_below(random, field->name_count); break;
    case FIELD_BOOL: *(int *)value = (int)random_below(random, TRUTH_YES + 1); break;
    case FIELD_RECORD: random_record(random, field->record, arena, value); break;
    case FIELD_TALLY: *(struct tally_list *)value = random_tally(random, arena); break;
    case FIELD_KEYED: *(struct any_list *)value = (struct any_list){0}; break;
    default: *(struct any_list *)value = random_list(random, field, arena); break;
    }
}

void random_field(struct chance *random, const struct field *field, struct arena *arena,
                  void *object)
{
    do
        random_value(random, field, arena, (char *)object + field->offset);
    while (field->required && !is_stored(field, object));
}

void random_record(struct chance *random, const struct record *record, struct arena *arena,
                   void *object)
{
    for (size_t i = 0; i < record->field_count; i++)
        random_field(random, &record->fields[i], arena, object);
}

void init_event(struct process_event *event)
{
    record_init(&process_event_record, event);
    event->details_are_calls = false;
}

void random_event(struct chance *random, struct arena *arena, struct process_event *event)
{
    init_event(event);
    random_record(random, &process_event_record, arena, event);
    event->count = INT_UNKNOWN; /* storms are made by the store */
    event->first_timestamp = REAL_UNKNOWN;
    if (event->is_step == TRUTH_NO) /* never so in a tick */
        event->is_step = TRUTH_UNKNOWN;
}

void init_anomaly(struct anomaly *anomaly)
{
    record_init(&anomaly_record, anomaly);
    anomaly->uid = INT_UNKNOWN;
    anomaly->is_opening = false;
}

void random_anomaly(struct chance *random, struct arena *arena, struct anomaly *anomaly)
{
    init_anomaly(anomaly);
    random_record(random, &anomaly_record, arena, anomaly);
}

/* ---- a synthetic machine ---- */

#define FIRST_PID 100

void world_init(struct world *world, uint64_t seed)
{
    *world = (struct world){
        .random = {.state = seed},
        .now = WORLD_START,
        .clock_ticks = 1000000,
        .tag = 7,
    };
    for (size_t i = 0; i < WORLD_RUNS; i++) {
        snprintf(world->runs[i].run_id, sizeof(world->runs[i].run_id),
                 "01900000-0000-7000-80%02zx-%012llx", i,
                 (unsigned long long)random_below(&world->random, UINT64_C(1) << 48));
        snprintf(world->runs[i].job_id, sizeof(world->runs[i].job_id), "job-%zu", i);
    }
}

void world_init_tame(struct world *world, uint64_t seed)
{
    world_init(world, seed);
    world->random.is_tame = true;
}

void world_done(struct world *world)
{
    arena_done(&world->arena);
}

/* The fields that the world sets itself. */
static bool is_settled(const char *name)
{
    static const char *const names[] = {"pid",        "job_id",      "run_id",
                                        "start_time", "age_seconds", NULL};

    for (const char *const *at = names; *at; at++)
        if (strcmp(name, *at) == 0)
            return true;
    return false;
}

/* Changes one field in `times`. */
static void change_fields(struct world *world, struct process_metric *metric, uint64_t times)
{
    for (size_t i = 0; i < process_metric_record.field_count; i++) {
        const struct field *field = &process_metric_record.fields[i];
        if (!is_settled(field->name) && random_once_in(&world->random, times))
            random_field(&world->random, field, &world->arena, metric);
    }
    if (world->random.is_tame && int_is_known(metric->sheet_num))
        metric->sheet_num %= 3;
}

static void change_job(struct world *world, struct process_metric *metric)
{
    uint64_t which = random_below(&world->random, WORLD_RUNS + 2);
    const struct world_run *run = which < WORLD_RUNS ? &world->runs[which] : NULL;

    metric->run_id = run ? run->run_id : NULL;
    metric->job_id = run ? run->job_id : NULL;
}

static void start_process(struct world *world, struct world_process *process)
{
    struct process_metric *metric = &process->metric;
    uint64_t age = random_below(&world->random, 400);

    process->is_alive = true;
    process->is_idle = random_once_in(&world->random, 2);
    process->keeps_time = !random_once_in(&world->random, 5);
    record_init(&process_metric_record, metric);
    metric->pid = FIRST_PID + (process - world->processes);
    metric->start_ticks = world->clock_ticks - age;
    metric->start_time = world->now - (double)age / 100;
    change_fields(world, metric, 1);
    change_job(world, metric);
}

static void advance_process(struct world *world, struct world_process *process)
{
    struct process_metric *metric = &process->metric;
    struct chance *random = &world->random;

    if (random_once_in(random, 40)) {
        process->is_alive = false;
        if (random_once_in(random, 2))
            start_process(world, process); /* the pid was reused between two ticks */
        return;
    }
    if (!process->is_idle)
        change_fields(world, metric, 6);
    if (random_once_in(random, 50)) /* an exec, a new parent, … */
        change_fields(world, metric, 3);
    if (random_once_in(random, 60))
        change_job(world, metric);
    if (random_once_in(random, 80))
        process->is_idle = !process->is_idle;
}

static void set_age(struct world *world, struct world_process *process)
{
    struct chance *random = &world->random;
    double age = (double)(world->clock_ticks - process->metric.start_ticks) / 100;

    if (!process->keeps_time)
        age = random_once_in(random, 3) ? REAL_UNKNOWN : floor(random_unit(random) * 4) + age;
    process->metric.age_seconds = age;
}

static void list_processes(struct world *world, struct snapshot *snapshot)
{
    struct process_list *list = &snapshot->processes;

    list->items = arena_alloc(&snapshot->arena, WORLD_PIDS * sizeof(list->items[0]));
    list->count = 0;
    for (size_t i = 0; i < WORLD_PIDS; i++) {
        struct world_process *process = &world->processes[i];
        if (process->is_alive)
            advance_process(world, process);
        else if (random_once_in(&world->random, 10))
            start_process(world, process);
        if (!process->is_alive)
            continue;
        set_age(world, process);
        list->items[list->count++] = process->metric;
    }
}

static void list_gpus(struct world *world, struct snapshot *snapshot)
{
    struct gpu_list *list = &snapshot->gpus;

    list->items = arena_alloc(&snapshot->arena, 3 * sizeof(list->items[0]));
    list->count = random_below(&world->random, 4);
    for (size_t i = 0; i < list->count; i++) {
        random_record(&world->random, &gpu_metric_record, &snapshot->arena, &list->items[i]);
        list->items[i].index = (int64_t)i;
    }
}

static void list_jobs(struct world *world, struct snapshot *snapshot)
{
    struct job_usage_list *list = &snapshot->jobs;

    list->items = arena_alloc(&snapshot->arena, WORLD_RUNS * sizeof(list->items[0]));
    list->count = 0;
    for (size_t i = 0; i < WORLD_RUNS; i++) {
        struct job_usage *usage = &list->items[list->count];
        if (random_once_in(&world->random, 3))
            continue;
        random_record(&world->random, &job_usage_record, &snapshot->arena, usage);
        usage->run_id = world->runs[i].run_id;
        usage->job_id = world->runs[i].job_id;
        list->count++;
    }
}

struct snapshot *world_tick(struct world *world)
{
    struct snapshot *snapshot = snapshot_new();

    assert_non_null(snapshot);
    uint64_t ticks = 100 + random_below(&world->random, 800);
    world->clock_ticks += ticks;
    world->now += (double)ticks / 100;
    random_record(&world->random, &snapshot_record, &snapshot->arena, snapshot);
    list_processes(world, snapshot);
    list_gpus(world, snapshot);
    list_jobs(world, snapshot);
    snapshot->timestamp = world->now;
    snapshot->id = world->last_id = snapshot_id_next(world->last_id, world->now, world->tag);
    /* The session sets these. */
    snapshot->host = "host.example";
    snapshot->daemon_pid = getpid();
    snapshot->resolution_seconds = FIXTURE_INTERVAL;
    return snapshot;
}

void write_snapshot(struct store *store, struct snapshot *snapshot)
{
    if (store_write_tick(store, &(struct tick){.snapshot = snapshot}) < 0)
        fail_msg("%s", store_error(store));
}

int write_anomaly(struct store *store, const struct anomaly *anomaly)
{
    struct anomaly copy = *anomaly;

    return store_write_tick(store, &(struct tick){.anomalies = {&copy, 1}});
}

int write_pattern(struct store *store, const struct pattern *pattern)
{
    struct pattern copy = *pattern;

    /* Renewing a type without patterns deletes none. */
    return store_renew_patterns(store, "no such type", &(struct pattern_list){&copy, 1});
}

void written_add(struct written *written, struct snapshot *snapshot)
{
    assert_int_equal(VEC_PUSH(written, snapshot), 0);
}

void written_done(struct written *written)
{
    for (size_t i = 0; i < written->count; i++)
        snapshot_free(written->items[i]);
    VEC_DONE(written);
}

struct snapshot *write_next(struct store *store, struct world *world, struct written *written)
{
    struct snapshot *snapshot = world_tick(world);

    written_add(written, snapshot);
    write_snapshot(store, snapshot);
    return snapshot;
}

void written_elsewhere(struct written *written, struct world *world, pid_t pid)
{
    struct snapshot *snapshot = world_tick(world);

    snapshot->daemon_pid = pid;
    written_add(written, snapshot);
}

/* ---- comparison ---- */

bool is_stored(const struct field *field, const void *object)
{
    const void *value = (const char *)object + field->offset;

    if (field->type == FIELD_REAL)
        return isfinite(*(const double *)value);
    if (field->type >= FIELD_RECORDS && field->type != FIELD_TALLY)
        return ((const struct any_list *)value)->count;
    return field_is_known(field, value);
}

static size_t value_size(const struct field *field)
{
    switch (field->type) {
    case FIELD_CHAR: return sizeof(char);
    case FIELD_ENUM:
    case FIELD_BOOL: return sizeof(int);
    case FIELD_INT:
    case FIELD_REAL:
    case FIELD_TEXT: return sizeof(int64_t);
    default: return sizeof(struct any_list);
    }
}

void record_merge(const struct record *record, void *into, const void *from)
{
    for (size_t i = 0; i < record->field_count; i++) {
        const struct field *field = &record->fields[i];
        char *place = (char *)into + field->offset;
        if (field->type == FIELD_RECORD)
            record_merge(field->record, place, (const char *)from + field->offset);
        else if (is_stored(field, from))
            memcpy(place, (const char *)from + field->offset, value_size(field));
    }
}

bool same_real(const struct field *field, double written, double found)
{
    double step = field->resolution;

    if (!isfinite(written)) /* NaN and infinity are stored as unknown */
        return isnan(found);
    if (isnan(found))
        return false;
    if (step == 0)
        return written == found;
    /* Values beyond 64 bits are limited, with their sign. */
    if (fabs(written) / step > 9e18)
        return fabs(found) / step > 9e18 && (found > 0) == (written > 0);
    if (fabs(found - written) > step / 2 * (1 + 1e-9) + fabs(written) * 1e-15)
        return false;
    double steps = found / step;
    return fabs(steps) > 1e9 || fabs(steps - round(steps)) < 1e-6;
}

static bool same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool same_tally(const struct field *field, const struct tally_list *a,
                       const struct tally_list *b)
{
    if (a->count != b->count || !a->items != !b->items)
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (!same_text(a->items[i].name, b->items[i].name) ||
            !same_real(field, a->items[i].value, b->items[i].value))
            return false;
    return true;
}

static bool same_list(const struct field *field, const struct any_list *a, const struct any_list *b)
{
    size_t size = field->record ? field->record->size : 8;

    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++) {
        const char *one = (const char *)a->items + i * size;
        const char *other = (const char *)b->items + i * size;
        if (field->record ? !same_record(field->record, one, other)
            : field->type == FIELD_INTS
                ? memcmp(one, other, size) != 0
                : !same_text(*(const char *const *)one, *(const char *const *)other))
            return false;
    }
    return true;
}

static bool same_value(const struct field *field, const void *a, const void *b)
{
    switch (field->type) {
    case FIELD_INT: return *(const int64_t *)a == *(const int64_t *)b;
    case FIELD_REAL: return same_real(field, *(const double *)a, *(const double *)b);
    case FIELD_TEXT: return same_text(*(const char *const *)a, *(const char *const *)b);
    case FIELD_CHAR: return *(const char *)a == *(const char *)b;
    case FIELD_ENUM:
    case FIELD_BOOL: return *(const int *)a == *(const int *)b;
    case FIELD_RECORD: return same_record(field->record, a, b);
    case FIELD_TALLY: return same_tally(field, a, b);
    default: return same_list(field, a, b);
    }
}

static void print_difference(const struct record *record, const struct field *field, const void *a,
                             const void *b)
{
    print_error("%s.%s differs", record->name, field->name);
    if (field->type == FIELD_INT)
        print_error(": wrote %lld, found %lld", (long long)*(const int64_t *)a,
                    (long long)*(const int64_t *)b);
    else if (field->type == FIELD_REAL)
        print_error(": wrote %.17g, found %.17g", *(const double *)a, *(const double *)b);
    else if (field->type == FIELD_TEXT)
        print_error(": wrote '%s', found '%s'", *(const char *const *)a, *(const char *const *)b);
    print_error("\n");
}

bool same_record(const struct record *record, const void *written, const void *found)
{
    for (size_t i = 0; i < record->field_count; i++) {
        const struct field *field = &record->fields[i];
        const char *a = (const char *)written + field->offset;
        const char *b = (const char *)found + field->offset;
        if (!same_value(field, a, b)) {
            print_difference(record, field, a, b);
            return false;
        }
    }
    return true;
}

void assert_same_record(const struct record *record, const void *written, const void *found,
                        const char *what, size_t number)
{
    if (!same_record(record, written, found))
        fail_msg("%s %zu differs", what, number);
}

static int by_run_id(const void *a, const void *b)
{
    return strcmp(((const struct job_usage *)a)->run_id, ((const struct job_usage *)b)->run_id);
}

void assert_same_snapshot(const struct snapshot *written, const struct snapshot *found,
                          size_t number)
{
    /* The order of jobs is not specified; this is the order of the world. */
    if (found->jobs.count)
        qsort(found->jobs.items, found->jobs.count, sizeof(found->jobs.items[0]), by_run_id);
    assert_same_record(&snapshot_record, written, found, "snapshot", number);
    for (size_t i = 0; i < written->processes.count; i++)
        assert_int_equal(written->processes.items[i].start_ticks,
                         found->processes.items[i].start_ticks);
}

void assert_same_snapshots(struct snapshot *const *written, size_t count,
                           const struct snapshot_list *found)
{
    assert_int_equal(found->count, count);
    for (size_t i = 0; i < count; i++)
        assert_same_snapshot(written[i], found->items[i], i);
}
