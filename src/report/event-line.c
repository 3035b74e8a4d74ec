#include "report/event-line.h"

#include <errno.h>

#include "model/record-json.h"

/* ---- envelopes ---- */

#define ENVELOPE(struct_type)                                                                      \
    FIELD_OF(struct_type, event, FIELD_TEXT, .required = true),                                    \
        FIELD_OF(struct_type, timestamp, FIELD_REAL, .required = true, .resolution = 0.000001),    \
        FIELD_OF(struct_type, job_id, FIELD_TEXT), FIELD_OF(struct_type, sheet_num, FIELD_INT)

static const struct field head_fields[] = {ENVELOPE(struct event_line)};
static const struct record head_record = RECORD_OF(struct event_line, "EventLine", head_fields);

static const struct field job_fields[] = {
#define FIELD(member, type) FIELD_OF(struct event_line_job, member, type)
    FIELD(run_id, FIELD_TEXT),      FIELD(command, FIELD_TEXT),      FIELD(outcome, FIELD_TEXT),
    FIELD(exit_code, FIELD_INT),    FIELD(signal_num, FIELD_INT),    FIELD(cause, FIELD_TEXT),
    FIELD(total_sheets, FIELD_INT), FIELD(current_sheet, FIELD_INT), FIELD(status, FIELD_TEXT),
    FIELD(name, FIELD_TEXT),        FIELD(pid, FIELD_INT),
#undef FIELD
};
static const struct record line_job_record =
    RECORD_OF(struct event_line_job, "EventLineJob", job_fields);

#define WITH_DATA(member, data_record)                                                             \
    {                                                                                              \
        ENVELOPE(struct event_line),                                                               \
        {                                                                                          \
            .name = "data", .type = FIELD_RECORD, .offset = offsetof(struct event_line, member),   \
            .record = &(data_record), .required = true                                             \
        }                                                                                          \
    }

static const struct field process_fields[] = WITH_DATA(process, process_event_record);
static const struct field anomaly_fields[] = WITH_DATA(anomaly, anomaly_record);
static const struct field gap_fields[] = WITH_DATA(gap, gap_record);
static const struct field of_job_fields[] = WITH_DATA(job, line_job_record);

/* The envelopes by kind; without fields: shown by its name only. */
static const struct record records[] = {
    [EVENT_KIND_SNAPSHOT] = {0},
    [EVENT_KIND_ANOMALY] = RECORD_OF(struct event_line, "EventLine", anomaly_fields),
    [EVENT_KIND_GAP] = RECORD_OF(struct event_line, "EventLine", gap_fields),
    [EVENT_KIND_PROCESS] = RECORD_OF(struct event_line, "EventLine", process_fields),
    [EVENT_KIND_JOB] = RECORD_OF(struct event_line, "EventLine", of_job_fields),
    [EVENT_KIND_STEP] = RECORD_OF(struct event_line, "EventLine", of_job_fields),
};

int event_line_decode(const char *json, size_t length, struct arena *arena, struct event_line *ret)
{
    struct decode_error error;
    struct event_line line = {0}, whole = {0};

    int r = record_decode(&head_record, json, length, arena, &line, &error);
    if (r < 0)
        return r;
    enum event_kind kind = event_name_kind(line.event);
    if (records[kind].field_count) {
        r = record_decode(&records[kind], json, length, arena, &whole, &error);
        if (r == -ENOMEM)
            return r;
        if (r == 0) {
            line = whole;
            line.kind = kind;
        }
    }
    *ret = line;
    return 0;
}

struct event_line event_line_of_process(const struct process_event *event)
{
    return (struct event_line){.event = event_name_text(event_name_of_type(event->event_type)),
                               .timestamp = event->timestamp,
                               .job_id = event->job_id,
                               .sheet_num = event->sheet_num,
                               .kind = EVENT_KIND_PROCESS,
                               .process = *event};
}

struct event_line event_line_of_anomaly(const struct anomaly *anomaly, bool is_end)
{
    struct event_line line = {
        .event = event_name_text(is_end ? EVENT_NAME_ANOMALY_CLEARED : EVENT_NAME_ANOMALY),
        .timestamp = is_end ? anomaly->cleared_at : anomaly->timestamp,
        .job_id = anomaly->job_id,
        .sheet_num = anomaly->sheet_num,
        .kind = EVENT_KIND_ANOMALY,
        .anomaly = *anomaly,
    };

    if (!is_end) /* as it was published when it opened */
        line.anomaly.cleared_at = REAL_UNKNOWN;
    return line;
}

struct event_line event_line_of_gap(const struct gap *gap)
{
    return (struct event_line){.event = event_name_text(EVENT_NAME_GAP),
                               .timestamp = gap->timestamp,
                               .sheet_num = INT_UNKNOWN,
                               .kind = EVENT_KIND_GAP,
                               .gap = *gap};
}

struct event_line event_line_of_job(const struct job *job, bool is_end)
{
    struct event_line line = {
        .event = event_name_text(is_end ? EVENT_NAME_JOB_FINISHED : EVENT_NAME_JOB_STARTED),
        .timestamp = is_end ? job->ended_at : job->started_at,
        .job_id = job->job_id,
        .sheet_num = INT_UNKNOWN,
        .kind = EVENT_KIND_JOB,
    };

    record_init(&line_job_record, &line.job);
    line.job.run_id = job->run_id;
    line.job.command = job->command;
    if (is_end) {
        line.job.outcome = outcome_name(job->outcome);
        line.job.exit_code = job->exit_code;
        line.job.signal_num = job->signal_num;
        line.job.cause = job->cause;
    }
    return line;
}

void event_line_encode_event(const struct event_line *line, struct text *out)
{
    struct json_writer json = {.out = out};

    record_encode(&records[EVENT_KIND_PROCESS], line, &json);
}

int64_t event_line_pid(const struct event_line *line)
{
    int64_t pid = 0;

    switch (line->kind) {
    case EVENT_KIND_PROCESS: pid = line->process.pid; break;
    case EVENT_KIND_ANOMALY: pid = line->anomaly.pid; break;
    case EVENT_KIND_JOB:
    case EVENT_KIND_STEP: pid = line->job.pid; break;
    default: break;
    }
    return pid > 0 ? pid : 0;
}

const char *event_line_run_id(const struct event_line *line)
{
    switch (line->kind) {
    case EVENT_KIND_PROCESS: return line->process.run_id;
    case EVENT_KIND_ANOMALY: return line->anomaly.run_id;
    case EVENT_KIND_JOB:
    case EVENT_KIND_STEP: return line->job.run_id;
    default: return NULL;
    }
}
