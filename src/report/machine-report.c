#include "report/machine-report.h"

static const struct field fields[] = {
#define FIELD(member, type, ...) FIELD_OF(struct machine_report, member, type, __VA_ARGS__)
    FIELD(as_of, FIELD_REAL, .required = true, .unit = UNIT_EPOCH, .resolution = 0.001,
          .meaning = "when the report was made"),
    FIELD(since, FIELD_REAL, .required = true, .unit = UNIT_EPOCH, .resolution = 0.001,
          .meaning = "start of the span"),
    FIELD(until, FIELD_REAL, .required = true, .unit = UNIT_EPOCH, .resolution = 0.001,
          .meaning = "end of the span"),
    FIELD(use, FIELD_RECORD, .record = &machine_use_record, .meaning = "figures from the samples"),
    FIELD(jobs, FIELD_RECORDS, .record = &job_record, .meaning = "runs in the span, latest first"),
    FIELD(jobs_left_out, FIELD_INT, .unit = UNIT_COUNT,
          .meaning = "number of older runs that are not listed; null: at least one"),
    FIELD(events, FIELD_RECORDS, .record = &process_event_record,
          .meaning = "the latest signals, kills, OOM kills and failed exits, oldest first"),
    FIELD(events_left_out, FIELD_INT, .unit = UNIT_COUNT,
          .meaning = "number of older events that are not listed; null: at least one"),
    FIELD(oom_kills, FIELD_RECORDS, .record = &process_event_record,
          .meaning = "the latest OOM kills, in jobs and outside"),
    FIELD(anomalies, FIELD_RECORDS, .record = &anomaly_record, .meaning = "anomalies in the span"),
    FIELD(gaps, FIELD_RECORDS, .record = &gap_record,
          .meaning = "periods that were not sampled, and data that was not stored"),
#undef FIELD
};
const struct record machine_report_record =
    RECORD_OF(struct machine_report, "MachineReport", fields);

bool machine_report_is_empty(const struct machine_report *report)
{
    bool has_samples = int_is_known(report->use.samples) && report->use.samples > 0;

    return !has_samples && !report->jobs.count && !report->events.count &&
           !report->oom_kills.count && !report->use.event_counts.count &&
           !report->anomalies.count && !report->gaps.count;
}
