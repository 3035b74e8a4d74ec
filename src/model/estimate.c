#include "model/estimate.h"

static const struct field resource_estimate_fields[] = {
#define FIELD(member, type, ...) FIELD_OF(struct resource_estimate, member, type, __VA_ARGS__)
    FIELD(estimated_peak_memory_mb, FIELD_REAL, .unit = UNIT_MB, .origin = "learn",
          .resolution = 0.001, .meaning = "memory to keep free for it: p95"),
    FIELD(estimated_cpu_seconds, FIELD_REAL, .unit = UNIT_SECONDS, .origin = "learn",
          .resolution = 0.000001, .meaning = "CPU time to expect: p50"),
    FIELD(confidence, FIELD_REAL, .origin = "learn", .resolution = 0.0001,
          .meaning = "0 to 1: more with more runs, less the more their memory differs"),
    FIELD(estimated_duration_seconds, FIELD_REAL, .unit = UNIT_SECONDS, .origin = "learn",
          .resolution = 0.000001, .meaning = "time to expect: p50"),
    FIELD(sample_size, FIELD_INT, .unit = UNIT_COUNT, .origin = "learn",
          .meaning = "finished runs it is made of, less those killed for memory"),
    FIELD(peak_memory_mb_p50, FIELD_REAL, .unit = UNIT_MB, .origin = "learn", .resolution = 0.001,
          .meaning = "peak memory of all processes together, shared pages once"),
    FIELD(peak_memory_mb_p95, FIELD_REAL, .unit = UNIT_MB, .origin = "learn", .resolution = 0.001,
          .meaning = "no less than any run had that was killed for memory"),
    FIELD(cpu_seconds_p50, FIELD_REAL, .unit = UNIT_SECONDS, .origin = "learn",
          .resolution = 0.000001, .meaning = "CPU time of all processes"),
    FIELD(cpu_seconds_p95, FIELD_REAL, .unit = UNIT_SECONDS, .origin = "learn",
          .resolution = 0.000001, .meaning = "the same"),
    FIELD(duration_seconds_p50, FIELD_REAL, .unit = UNIT_SECONDS, .origin = "learn",
          .resolution = 0.000001, .meaning = "from start to end"),
    FIELD(duration_seconds_p95, FIELD_REAL, .unit = UNIT_SECONDS, .origin = "learn",
          .resolution = 0.000001, .meaning = "the same"),
    FIELD(failure_rate, FIELD_REAL, .origin = "learn", .resolution = 0.0001,
          .meaning = "share of the runs with a known outcome that failed, 0 to 1"),
#undef FIELD
};
const struct record resource_estimate_record =
    RECORD_OF(struct resource_estimate, "ResourceEstimate", resource_estimate_fields);
