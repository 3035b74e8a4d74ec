#include "model/machine-use.h"

#define USE_RANGE(unit_, resolution_)                                                              \
    {                                                                                              \
        FIELD_OF(struct use_range, min, FIELD_REAL, .unit = (unit_), .resolution = (resolution_),  \
                 .meaning = "the smallest"),                                                       \
            FIELD_OF(struct use_range, mean, FIELD_REAL, .unit = (unit_),                          \
                     .resolution = (resolution_), .meaning = "the mean"),                          \
            FIELD_OF(struct use_range, max, FIELD_REAL, .unit = (unit_),                           \
                     .resolution = (resolution_), .meaning = "the largest"),                       \
    }

static const struct field percent_fields[] = USE_RANGE(UNIT_PERCENT, 0.01);
static const struct field mb_fields[] = USE_RANGE(UNIT_MB, 0.001);
static const struct field load_fields[] = USE_RANGE(UNIT_NONE, 0.01);
static const struct record percent_record = RECORD_OF(struct use_range, "UseRange", percent_fields);
static const struct record mb_record = RECORD_OF(struct use_range, "UseRange", mb_fields);
static const struct record load_record = RECORD_OF(struct use_range, "UseRange", load_fields);

static const struct field process_use_fields[] = {
#define FIELD(member, type, ...) FIELD_OF(struct process_use, member, type, __VA_ARGS__)
    FIELD(pid, FIELD_INT, .required = true, .meaning = "process id"),
    FIELD(command, FIELD_TEXT, .holds_command = true, .meaning = "command line"),
    FIELD(job_id, FIELD_TEXT, .meaning = "the job it belongs to"),
    FIELD(cpu_seconds, FIELD_REAL, .unit = UNIT_SECONDS, .resolution = 0.000001,
          .meaning = "CPU time within the period"),
    FIELD(max_rss_mb, FIELD_REAL, .unit = UNIT_MB, .resolution = 0.001,
          .meaning = "largest sampled RSS within the period"),
#undef FIELD
};
static const struct record process_use_record =
    RECORD_OF(struct process_use, "ProcessUse", process_use_fields);

static const struct field machine_use_fields[] = {
#define FIELD(member, type, ...) FIELD_OF(struct machine_use, member, type, __VA_ARGS__)
    FIELD(first, FIELD_REAL, .unit = UNIT_EPOCH, .resolution = 0.001,
          .meaning = "time of the first sample within the period"),
    FIELD(last, FIELD_REAL, .unit = UNIT_EPOCH, .resolution = 0.001,
          .meaning = "time of the last sample within the period"),
    FIELD(samples, FIELD_INT, .unit = UNIT_COUNT, .meaning = "number of samples"),
    FIELD(system_memory_total_mb, FIELD_REAL, .unit = UNIT_MB, .resolution = 0.001,
          .meaning = "usable memory"),
    FIELD(cpu_count, FIELD_REAL, .unit = UNIT_COUNT, .resolution = 0.01, .meaning = "usable cores"),
    FIELD(system_cpu_percent, FIELD_RECORD, .record = &percent_record,
          .meaning = "CPU use of the machine"),
    FIELD(system_memory_used_mb, FIELD_RECORD, .record = &mb_record,
          .meaning = "used memory (total minus available)"),
    FIELD(load_avg_1, FIELD_RECORD, .record = &load_record,
          .meaning = "load average over 1 minute"),
    FIELD(max_zombies, FIELD_INT, .unit = UNIT_COUNT,
          .meaning = "largest number of zombies at one time"),
    FIELD(event_counts, FIELD_TALLY, .unit = UNIT_COUNT, .meaning = "number of events, by type"),
    FIELD(processes, FIELD_RECORDS, .record = &process_use_record,
          .meaning = "the processes with the most CPU time and those with the most memory"),
#undef FIELD
};
const struct record machine_use_record =
    RECORD_OF(struct machine_use, "MachineUse", machine_use_fields);
