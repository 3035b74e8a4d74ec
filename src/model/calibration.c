#include "model/calibration.h"

static const struct field held_rate_fields[] = {
#define FIELD(member, type, ...)                                                                   \
    FIELD_OF(struct held_rate, member, type, .origin = "learn", __VA_ARGS__)
    FIELD(checked, FIELD_INT, .unit = UNIT_COUNT,
          .meaning = "runs for which there was an estimate when they began"),
    FIELD(held, FIELD_INT, .unit = UNIT_COUNT, .meaning = "those that kept within its p95"),
    FIELD(rate, FIELD_REAL, .resolution = 0.0001, .meaning = "their share; 0.95 is the aim"),
    FIELD(rate_low, FIELD_REAL, .resolution = 0.0001,
          .meaning = "where it may truly lie: Wilson's 95 % interval"),
    FIELD(rate_high, FIELD_REAL, .resolution = 0.0001, .meaning = "its other end"),
#undef FIELD
};
static const struct record held_rate_record =
    RECORD_OF(struct held_rate, "HeldRate", held_rate_fields);

static const struct field calibration_fields[] = {
#define FIELD(member, type, ...) FIELD_OF(struct calibration, member, type, __VA_ARGS__)
    FIELD(job_type, FIELD_TEXT, .required = true, .meaning = "the type"),
    FIELD(runs, FIELD_INT, .unit = UNIT_COUNT,
          .meaning = "finished ones that had others of the type before them"),
    FIELD(memory, FIELD_RECORD, .record = &held_rate_record, .meaning = "peak memory"),
    FIELD(cpu, FIELD_RECORD, .record = &held_rate_record, .meaning = "CPU seconds"),
    FIELD(duration, FIELD_RECORD, .record = &held_rate_record, .meaning = "from start to end"),
    FIELD(memory_when_sure, FIELD_RECORD, .record = &held_rate_record,
          .meaning =
              "peak memory, by the estimates that admission goes by: confidence 0.5 or more"),
#undef FIELD
};
const struct record calibration_record =
    RECORD_OF(struct calibration, "Calibration", calibration_fields);
