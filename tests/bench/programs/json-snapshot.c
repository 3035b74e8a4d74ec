/* One snapshot of 200 processes as JSON text: by sonde's writer, and by building it with jansson.
 *
 *   json-snapshot ROUNDS
 *
 * Prints a line per round: CPU ns by sonde, CPU ns by jansson, bytes by sonde, bytes by jansson.
 * jansson is driven by the same field table and assumes that keys and texts are valid UTF-8, which
 * is its fastest way; json_pack() would also parse a format. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/record-json.h"
#include "model/snapshot.h"
#include "worker.h"

#define PROCESSES 200
#define REPEATS   20

/* ---- the snapshot ---- */

static void fill_process(struct snapshot *snapshot, int number, struct process_metric *process)
{
    char command[128];

    snprintf(command, sizeof(command),
             "/usr/lib/gcc/x86_64-linux-gnu/12/cc1 -O2 -o unit-%d.o \"%d\"", number, number * 7);
    record_init(&process_metric_record, process);
    process->pid = 1000 + number;
    process->ppid = 1000;
    process->command = arena_strdup(&snapshot->arena, command);
    process->state = number % 5 ? 'S' : 'R';
    process->cpu_percent = number * 0.37;
    process->rss_mb = number * 1.25 + 0.00390625;
    process->vms_mb = number * 12.5;
    process->shared_mb = number * 0.5;
    process->peak_rss_mb = number * 1.5;
    process->threads = 1 + number % 8;
    process->open_fds = 3 + number;
    process->fd_limit = 1024;
    process->age_seconds = number * 3.21;
    process->start_time = 1700000000.25 + number;
    process->cpu_seconds = number * 0.123;
    process->uid = 1000;
    process->read_bytes = number * INT64_C(1048577);
    process->write_bytes = number * INT64_C(4096);
    process->job_id = "make-7f3a";
    process->run_id = "018bcfe5-6800-7000-8000-000000000001";
}

static struct snapshot *make_snapshot(void)
{
    struct snapshot *snapshot = snapshot_new();
    if (!snapshot)
        abort();

    snapshot->timestamp = 1700000000.5;
    snapshot->host = "localhost";
    snapshot->system_memory_total_mb = 24105.5;
    snapshot->processes.items =
        arena_alloc(&snapshot->arena, PROCESSES * sizeof(*snapshot->processes.items));
    if (!snapshot->processes.items)
        abort();
    for (int i = 0; i < PROCESSES; i++)
        fill_process(snapshot, i, &snapshot->processes.items[i]);
    snapshot->processes.count = PROCESSES;
    return snapshot;
}

/* ---- by jansson ---- */

static json_t *build(const struct record *record, const void *object);

static json_t *build_text(const char *text)
{
    return text ? json_string_nocheck(text) : json_null();
}

static json_t *build_records(const struct record *record, const struct any_list *list)
{
    json_t *array = json_array();

    for (size_t i = 0; i < list->count; i++)
        json_array_append_new(array, build(record, (const char *)list->items + i * record->size));
    return array;
}

static json_t *build_field(const struct field *field, const void *value)
{
    switch (field->type) {
    case FIELD_INT:
        return int_is_known(*(const int64_t *)value) ? json_integer(*(const int64_t *)value)
                                                     : json_null();
    case FIELD_REAL:
        return real_is_known(*(const double *)value) ? json_real(*(const double *)value)
                                                     : json_null();
    case FIELD_TEXT: return build_text(*(const char *const *)value);
    case FIELD_CHAR: {
        const char text[] = {*(const char *)value, '\0'};
        return build_text(*text ? text : NULL);
    }
    case FIELD_ENUM: return build_text(field_enum_name(field, *(const int *)value));
    case FIELD_RECORD: return build(field->record, value);
    case FIELD_RECORDS: return build_records(field->record, value);
    default: return json_null(); /* this snapshot has no such fields */
    }
}

static json_t *build(const struct record *record, const void *object)
{
    json_t *json = json_object();

    for (size_t i = 0; i < record->field_count; i++) {
        const struct field *field = &record->fields[i];
        json_object_set_new_nocheck(json, field->name,
                                    build_field(field, (const char *)object + field->offset));
    }
    return json;
}

static size_t by_jansson(const struct snapshot *snapshot)
{
    json_t *json = build(&snapshot_record, snapshot);
    char *text = json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(12));
    size_t length = text ? strlen(text) : 0;

    free(text);
    json_decref(json);
    return length;
}

/* ---- by sonde; the buffer is reused, as in the daemon ---- */

static size_t by_sonde(const struct snapshot *snapshot)
{
    static struct text text;
    struct json_writer json = {.out = &text};

    text_reset(&text);
    record_encode(&snapshot_record, snapshot, &json);
    return text_error(&text) < 0 ? 0 : text.length;
}

static uint64_t cost_ns(size_t (*encode)(const struct snapshot *), const struct snapshot *snapshot,
                        size_t *ret_length)
{
    uint64_t started_ns = worker_cpu_ns();

    for (int i = 0; i < REPEATS; i++)
        *ret_length = encode(snapshot);
    return (worker_cpu_ns() - started_ns) / REPEATS;
}

int main(int argc, char **argv)
{
    struct snapshot *snapshot = make_snapshot();
    size_t ours, theirs;

    for (int left = argc > 1 ? atoi(argv[1]) : 0; left > 0; left--) {
        uint64_t sonde_ns = cost_ns(by_sonde, snapshot, &ours);
        uint64_t jansson_ns = cost_ns(by_jansson, snapshot, &theirs);
        printf("%llu %llu %zu %zu\n", (unsigned long long)sonde_ns, (unsigned long long)jansson_ns,
               ours, theirs);
    }
    snapshot_free(snapshot);
    return 0;
}
