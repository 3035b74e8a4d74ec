#include "model/event-name.h"

#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "model/gap.h"
#include "model/job.h"
#include "model/snapshot.h"

/* The groups are adjacent. */
static const struct entry {
    const char *text;
    enum event_kind kind;
    enum event_type type;      /* of an event of a process */
    const struct record *data; /* NULL: `fields` */
    const char *fields;
    const char *when;
} entries[] = {
#define EVENT(id, name_text, event_kind, ...)                                                      \
    [EVENT_NAME_##id] = {.text = (name_text), .kind = EVENT_KIND_##event_kind, __VA_ARGS__}
#define OF_PROCESS(id, name_text, ...)                                                             \
    EVENT(id, name_text, PROCESS, .type = EVENT_##id, .data = &process_event_record, __VA_ARGS__)
#define OF_STEP(id, name_text, ...)                                                                \
    EVENT(id, name_text, STEP,                                                                     \
          .fields = "`run_id`, `name`, `pid`, `exit_code`, `resource_context`", __VA_ARGS__)
    EVENT(UNKNOWN, "process.event", OTHER),
    EVENT(SNAPSHOT, "monitor.snapshot", SNAPSHOT, .data = &snapshot_record,
          .when = "a snapshot was taken: at every tick, or on demand"),
    EVENT(ANOMALY, "monitor.anomaly", ANOMALY, .data = &anomaly_record, .when = "an episode opens"),
    EVENT(ANOMALY_CLEARED, "monitor.anomaly_cleared", ANOMALY, .data = &anomaly_record,
          .when = "an episode clears"),
    EVENT(GAP, "monitor.gap", GAP, .data = &gap_record, .when = "data is missing"),
    OF_PROCESS(SPAWN, "process.spawn", .when = "a process of a job started"),
    OF_PROCESS(EXEC, "process.exec", .when = "a process of a job executed a program"),
    OF_PROCESS(EXIT, "process.exit", .when = "a process of a job ended by itself"),
    OF_PROCESS(SIGNAL, "process.signal",
               .when = "a process of a job got a signal that did not end it"),
    OF_PROCESS(KILL, "process.kill", .when = "a signal ended a process of a job"),
    OF_PROCESS(OOM, "process.oom", .when = "the kernel killed a process because memory ran out"),
    EVENT(JOB_STARTED, "job.started", JOB, .data = &job_record,
          .when = "a client reported the start of a job, or a rule found a job"),
    EVENT(JOB_PROGRESS, "job.progress", JOB, .data = &job_progress_record,
          .when = "a client reported the progress of a job"),
    EVENT(JOB_FINISHED, "job.finished", JOB, .data = &job_record, .when = "a job ended"),
    OF_STEP(STEP_STARTED, "sheet.started", .when = "a client reported the start of a step"),
    OF_STEP(STEP_COMPLETED, "sheet.completed", .when = "a step ended with success"),
    OF_STEP(STEP_FAILED, "sheet.failed", .when = "a step ended with failure"),
#undef OF_STEP
#undef OF_PROCESS
#undef EVENT
};

const char *event_name_text(enum event_name name)
{
    return entries[name].text;
}

const char *event_name_word(enum event_name name)
{
    return strchr(entries[name].text, '.') + 1;
}

enum event_name event_name_find(const char *text)
{
    for (enum event_name name = EVENT_NAME_UNKNOWN + 1; name < EVENT_NAME_COUNT; name++)
        if (strcmp(entries[name].text, text) == 0)
            return name;
    return EVENT_NAME_UNKNOWN;
}

enum event_name event_name_of_type(int event_type)
{
    for (enum event_name name = EVENT_NAME_UNKNOWN + 1; name < EVENT_NAME_COUNT; name++)
        if (entries[name].kind == EVENT_KIND_PROCESS && (int)entries[name].type == event_type)
            return name;
    return EVENT_NAME_UNKNOWN;
}

enum event_name event_name_of_step(const struct process_event *event)
{
    char details[64];

    if ((event->event_type != EVENT_SPAWN && event->event_type != EVENT_EXIT) || !event->details ||
        !int_is_known(event->sheet_num))
        return EVENT_NAME_UNKNOWN;
    for (enum event_name name = EVENT_NAME_UNKNOWN + 1; name < EVENT_NAME_COUNT; name++) {
        if (entries[name].kind != EVENT_KIND_STEP)
            continue;
        snprintf(details, sizeof(details), STEP_DETAILS_FORMAT, (long long)event->sheet_num,
                 event_name_word(name));
        if (strcmp(event->details, details) == 0)
            return name;
    }
    return EVENT_NAME_UNKNOWN;
}

/* ---- groups ---- */

static bool is_same_group(const char *text, const char *other)
{
    size_t length = strcspn(text, ".") + 1;
    return strncmp(text, other, length) == 0;
}

/* Returns the name that begins the next group after that of `name`, or EVENT_NAME_COUNT. Groups
 * begin after EVENT_NAME_UNKNOWN. */
static enum event_name next_group(enum event_name name)
{
    enum event_name next = name + 1;

    while (name != EVENT_NAME_UNKNOWN && next < EVENT_NAME_COUNT &&
           is_same_group(entries[name].text, entries[next].text))
        next++;
    return next;
}

enum event_kind event_name_kind(const char *text)
{
    enum event_name name = event_name_find(text);

    if (name != EVENT_NAME_UNKNOWN)
        return entries[name].kind;
    while ((name = next_group(name)) < EVENT_NAME_COUNT)
        /* The group of snapshots has several kinds. */
        if (is_same_group(entries[name].text, text) && entries[name].kind != EVENT_KIND_SNAPSHOT)
            return entries[name].kind;
    return EVENT_KIND_OTHER;
}

void event_name_append_groups(struct text *out)
{
    enum event_name name = next_group(EVENT_NAME_UNKNOWN), next;

    for (bool is_first = true; name < EVENT_NAME_COUNT; name = next, is_first = false) {
        next = next_group(name);
        text_printf(out, "%s%.*s.",
                    is_first                  ? ""
                    : next < EVENT_NAME_COUNT ? ", "
                                              : " or ",
                    (int)strcspn(entries[name].text, "."), entries[name].text);
    }
}

/* ---- patterns ---- */

bool event_name_matches(const char *pattern, const char *name)
{
    const char *star = strchr(pattern, '*');

    return star ? strncmp(pattern, name, (size_t)(star - pattern)) == 0
                : strcmp(pattern, name) == 0;
}

bool event_name_exists(const char *pattern)
{
    for (enum event_name name = EVENT_NAME_UNKNOWN + 1; name < EVENT_NAME_COUNT; name++)
        if (event_name_matches(pattern, entries[name].text))
            return true;
    return false;
}

void event_name_write_patterns(struct json_writer *json)
{
    const char *snapshot = entries[EVENT_NAME_SNAPSHOT].text;
    enum event_name name = next_group(EVENT_NAME_UNKNOWN), next;
    char pattern[64];

    json_write_begin_array(json);
    for (; name < EVENT_NAME_COUNT; name = next) {
        next = next_group(name);
        if (!is_same_group(snapshot, entries[name].text)) {
            snprintf(pattern, sizeof(pattern), "%.*s.*", (int)strcspn(entries[name].text, "."),
                     entries[name].text);
            json_write_string(json, pattern);
            continue;
        }
        for (; name < next; name++)
            if (name != EVENT_NAME_SNAPSHOT)
                json_write_string(json, entries[name].text);
    }
    json_write_end_array(json);
}

/* ---- documentation ---- */

void event_name_markdown(struct text *out)
{
    text_append_string(out, "| event | when | data |\n| --- | --- | --- |\n");
    for (enum event_name name = EVENT_NAME_UNKNOWN + 1; name < EVENT_NAME_COUNT; name++) {
        const struct entry *entry = &entries[name];
        text_printf(out, "| `%s` | %s | %s |\n", entry->text, entry->when,
                    entry->data ? entry->data->name : entry->fields);
    }
}
