#include "report/job-report.h"

static const struct field fields[] = {
#define FIELD(member, type, ...) FIELD_OF(struct job_report, member, type, __VA_ARGS__)
    FIELD(as_of, FIELD_REAL, .required = true, .unit = UNIT_EPOCH, .resolution = 0.001,
          .meaning = "when the report was made; figures of a running job are those so far"),
    FIELD(job, FIELD_RECORD, .record = &job_record, .meaning = "the run, with its profile"),
    FIELD(sheets, FIELD_RECORDS, .record = &sheet_record, .meaning = "steps of the run"),
    FIELD(runs_within, FIELD_RECORDS, .record = &job_record,
          .meaning = "runs started by this run, latest first"),
    FIELD(events, FIELD_RECORDS, .record = &process_event_record,
          .meaning = "the latest signals, kills, OOM kills and failed exits, oldest first"),
    FIELD(events_left_out, FIELD_INT, .unit = UNIT_COUNT,
          .meaning = "number of older events that are not listed; null: at least one"),
    FIELD(storms, FIELD_RECORDS, .record = &process_event_record,
          .meaning = "events that were counted, not stored one by one, by program, kind and "
                     "status"),
    FIELD(last_memory, FIELD_RECORDS, .record = &memory_point_record,
          .meaning = "memory in the last 30 s of a run that failed or was lost"),
    FIELD(anomalies, FIELD_RECORDS, .record = &anomaly_record, .meaning = "anomalies of the run"),
    FIELD(gaps, FIELD_RECORDS, .record = &gap_record,
          .meaning = "periods that were not sampled, and data that was not stored"),
    FIELD(earlier_runs, FIELD_RECORD, .record = &earlier_runs_record,
          .meaning = "comparison with earlier runs of its type"),
#undef FIELD
};
const struct record job_report_record = RECORD_OF(struct job_report, "JobReport", fields);

double sheet_wall_seconds(const struct sheet *sheet, double as_of)
{
    bool is_running = sheet->outcome == OUTCOME_RUNNING && !real_is_known(sheet->ended_at);

    return (is_running ? as_of : sheet->ended_at) - sheet->started_at;
}
