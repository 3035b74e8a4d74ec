/* The names of the events that a daemon publishes: one table, which the bus, the clients, the
 * screen and docs/RPC.md use. A name consists of its group and a word: `process.exit`. */
#pragma once

#include "base/json-writer.h"
#include "model/event.h"

enum event_name {
    EVENT_NAME_UNKNOWN, /* of a newer daemon */
    EVENT_NAME_SNAPSHOT,
    EVENT_NAME_ANOMALY,
    EVENT_NAME_ANOMALY_CLEARED,
    EVENT_NAME_GAP,
    EVENT_NAME_SPAWN,
    EVENT_NAME_EXEC,
    EVENT_NAME_EXIT,
    EVENT_NAME_SIGNAL,
    EVENT_NAME_KILL,
    EVENT_NAME_OOM,
    EVENT_NAME_JOB_STARTED,
    EVENT_NAME_JOB_PROGRESS,
    EVENT_NAME_JOB_FINISHED,
    EVENT_NAME_STEP_STARTED,
    EVENT_NAME_STEP_COMPLETED,
    EVENT_NAME_STEP_FAILED,
    EVENT_NAME_COUNT
};

/* What the data of an event describes. */
enum event_kind {
    EVENT_KIND_OTHER, /* unknown */
    EVENT_KIND_SNAPSHOT,
    EVENT_KIND_ANOMALY,
    EVENT_KIND_GAP,
    EVENT_KIND_PROCESS,
    EVENT_KIND_JOB,
    EVENT_KIND_STEP,
};

/* Return the name as it is published ("sheet.started"), and its last word ("started"). The name of
 * EVENT_NAME_UNKNOWN is for stored events of an unknown type. */
const char *event_name_text(enum event_name name);
const char *event_name_word(enum event_name name);

enum event_name event_name_find(const char *text);
/* Returns the name of an event of a process; `event_type` is an enum event_type. */
enum event_name event_name_of_type(int event_type);
/* Returns the kind of the event of that name. An unknown name has the kind of its group. */
enum event_kind event_name_kind(const char *text);
/* Returns which event of a step a stored event is; EVENT_NAME_UNKNOWN if it is an event of a
 * process. Decides by the details, because daemons and logs of 0.1.0 do not send `is_step`. */
enum event_name event_name_of_step(const struct process_event *event);

/* Returns whether `pattern` matches `name`: a pattern is a name, a prefix such as `sheet.*` or `*`.
 */
bool event_name_matches(const char *pattern, const char *name);
/* Returns whether any event matches the pattern. */
bool event_name_exists(const char *pattern);
/* Writes a list of the patterns that match all events except snapshots: whole groups, with the
 * names that newer daemons add, and the single names of the group of snapshots. */
void event_name_write_patterns(struct json_writer *json);
/* Appends all groups: "monitor., process., job. or sheet.". */
void event_name_append_groups(struct text *out);

/* Appends the table of events for docs/RPC.md. */
void event_name_markdown(struct text *out);
