#include "daemon/publish.h"

#include "base/clock.h"
#include "base/json-writer.h"
#include "daemon/daemon-state.h"
#include "model/event-name.h"
#include "model/record-json.h"

/* Encodes a record for publication. */
static void publish_record(struct daemon *daemon, const struct record *record, const void *object,
                           struct bus_message *message)
{
    _cleanup_text_ struct text data = {0};
    struct json_writer json = {.out = &data};

    if (!bus_is_wanted(daemon->bus, message->event))
        return;
    record_encode(record, object, &json);
    message->data = &data;
    if (text_error(&data) == 0)
        bus_publish(daemon->bus, message);
}

static void publish_event(struct daemon *daemon, const struct process_event *event)
{
    int64_t uid = daemon_owner_of(daemon, event->run_id);

    live_note_event(&daemon->live, event, uid);
    if (event->is_step == TRUTH_YES) /* published under its own name when it was reported */
        return;
    publish_record(
        daemon, &process_event_record, event,
        &(struct bus_message){.event = event_name_text(event_name_of_type(event->event_type)),
                              .timestamp = event->timestamp,
                              .job_id = event->job_id,
                              .sheet_num = event->sheet_num,
                              .uid = uid});
}

static void publish_anomaly(struct daemon *daemon, const struct anomaly *anomaly)
{
    bool is_cleared = real_is_known(anomaly->cleared_at);

    if (!is_cleared && !anomaly->is_opening) /* published once, even if it changes */
        return;
    publish_record(
        daemon, &anomaly_record, anomaly,
        &(struct bus_message){
            .event = event_name_text(is_cleared ? EVENT_NAME_ANOMALY_CLEARED : EVENT_NAME_ANOMALY),
            .timestamp = is_cleared ? anomaly->cleared_at : anomaly->timestamp,
            .job_id = anomaly->job_id,
            .sheet_num = anomaly->sheet_num,
            .uid = anomaly->uid,
            .is_public = !int_is_known(anomaly->pid) && !anomaly->run_id,
        });
}

static void publish_gap(struct daemon *daemon, const struct gap *gap)
{
    live_note_gap(&daemon->live, gap);
    publish_record(daemon, &gap_record, gap,
                   &(struct bus_message){.event = event_name_text(EVENT_NAME_GAP),
                                         .timestamp = gap->timestamp,
                                         .sheet_num = INT_UNKNOWN,
                                         .is_public = true});
}

void publish_tick(struct daemon *daemon, const struct tick *tick)
{
    for (size_t i = 0; i < tick->events.count; i++)
        publish_event(daemon, &tick->events.items[i]);
    for (size_t i = 0; i < tick->gaps.count; i++)
        publish_gap(daemon, &tick->gaps.items[i]);
    if (tick->snapshot) {
        live_note_snapshot(&daemon->live, tick->snapshot);
        bus_publish_snapshot(daemon->bus, tick->snapshot, daemon_owner_of, daemon);
    }
    for (size_t i = 0; i < tick->anomalies.count; i++)
        publish_anomaly(daemon, &tick->anomalies.items[i]);
}
