#include "model/calibration.h"

static const struct field held_rate_fields[] = {
#define FIELD(member, type, ...)                                                                   \
    FIELD_OF(struct held_rate, member, type, .origin = "learn", __VA_ARGS__)
    FIELD(checked, FIELD_INT, .unit = UNIT_COUNT,
          .meaning = "runs for which an estimate existed when they started"),
    FIELD(held, FIELD_INT, .unit = UNIT_COUNT, .meaning = "runs that stayed within the p95"),
    FIELD(rate, FIELD_REAL, .resolution = 0.0001,
          .meaning = "held divided by checked; the target is 0.95"),
    FIELD(rate_low, FIELD_REAL, .resolution = 0.0001,
          .meaning = "lower end of Wilson's 95 % interval of the rate"),
    FIELD(rate_high, FIELD_REAL, .resolution = 0.0001, .meaning = "upper end of that interval"),
#undef FIELD
};
static const struct record held_rate_record =
    RECORD_OF(struct held_rate, "HeldRate", held_rate_fields);

static const struct field calibration_fields[] = {
#define FIELD(member, type, ...) FIELD_OF(struct calibration, member, type, __VA_ARGS__)
    FIELD(job_type, FIELD_TEXT, .required = true, .meaning = "the job type"),
    FIELD(runs, FIELD_INT, .unit = UNIT_COUNT,
          .meaning = "finished runs that had earlier runs of the type"),
    FIELD(memory, FIELD_RECORD, .record = &held_rate_record, .meaning = "peak memory"),
    FIELD(cpu, FIELD_RECORD, .record = &held_rate_record, .meaning = "CPU seconds"),
    FIELD(duration, FIELD_RECORD, .record = &held_rate_record, .meaning = "wall time"),
    FIELD(memory_when_sure, FIELD_RECORD, .record = &held_rate_record,
          .meaning = "peak memory, only for estimates with enough confidence for admission"),
#undef FIELD
};
const struct record calibration_record =
    RECORD_OF(struct calibration, "Calibration", calibration_fields);
