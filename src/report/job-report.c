#include "report/job-report.h"

static const struct field fields[] = {
#define FIELD(member, type, ...) FIELD_OF(struct job_report, member, type, __VA_ARGS__)
    FIELD(as_of, FIELD_REAL, .required = true, .unit = UNIT_EPOCH, .resolution = 0.001,
          .meaning = "when the report was made; figures of a running job are those so far"),
    FIELD(job, FIELD_RECORD, .record = &job_record, .meaning = "the run, with its profile"),
    FIELD(sheets, FIELD_RECORDS, .record = &sheet_record, .meaning = "steps of the run"),
    FIELD(runs_within, FIELD_RECORDS, .record = &job_record,
          .meaning = "runs that it started, latest first"),
    FIELD(events, FIELD_RECORDS, .record = &process_event_record,
          .meaning = "the latest signals, kills, OOM kills and failed exits, oldest first"),
    FIELD(events_left_out, FIELD_INT, .unit = UNIT_COUNT,
          .meaning = "how many more there were; null: some"),
    FIELD(storms, FIELD_RECORDS, .record = &process_event_record,
          .meaning = "events that were not stored one by one, by program, kind and status"),
    FIELD(last_memory, FIELD_RECORDS, .record = &memory_point_record,
          .meaning = "of a run that failed or was lost: its memory in the last 30 s"),
    FIELD(anomalies, FIELD_RECORDS, .record = &anomaly_record, .meaning = "anomalies of the run"),
    FIELD(gaps, FIELD_RECORDS, .record = &gap_record,
          .meaning = "time that was not sampled, and what was not stored"),
    FIELD(earlier_runs, FIELD_RECORD, .record = &earlier_runs_record,
          .meaning = "comparison with earlier runs of its type"),
#undef FIELD
};
const struct record job_report_record = RECORD_OF(struct job_report, "JobReport", fields);
