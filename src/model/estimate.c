#include "model/estimate.h"

static const struct field resource_estimate_fields[] = {
#define FIELD(member, type, ...) FIELD_OF(struct resource_estimate, member, type, __VA_ARGS__)
    FIELD(estimated_peak_memory_mb, FIELD_REAL, .unit = UNIT_MB, .origin = "learn",
          .resolution = 0.001, .meaning = "memory to reserve for the run: p95"),
    FIELD(estimated_cpu_seconds, FIELD_REAL, .unit = UNIT_SECONDS, .origin = "learn",
          .resolution = 0.000001, .meaning = "expected CPU time: p50"),
    FIELD(confidence, FIELD_REAL, .origin = "learn", .resolution = 0.0001,
          .meaning =
              "0 to 1; rises with the number of runs, falls with the spread of their memory"),
    FIELD(estimated_duration_seconds, FIELD_REAL, .unit = UNIT_SECONDS, .origin = "learn",
          .resolution = 0.000001, .meaning = "expected wall time: p50"),
    FIELD(sample_size, FIELD_INT, .unit = UNIT_COUNT, .origin = "learn",
          .meaning =
              "finished runs that the estimate uses, without those killed because memory ran out"),
    FIELD(peak_memory_mb_p50, FIELD_REAL, .unit = UNIT_MB, .origin = "learn", .resolution = 0.001,
          .meaning = "median peak memory of all processes, shared pages counted once"),
    FIELD(peak_memory_mb_p95, FIELD_REAL, .unit = UNIT_MB, .origin = "learn", .resolution = 0.001,
          .meaning = "95th percentile of it; at least the memory of any run that was killed "
                     "because memory ran out"),
    FIELD(cpu_seconds_p50, FIELD_REAL, .unit = UNIT_SECONDS, .origin = "learn",
          .resolution = 0.000001, .meaning = "median CPU time of all processes"),
    FIELD(cpu_seconds_p95, FIELD_REAL, .unit = UNIT_SECONDS, .origin = "learn",
          .resolution = 0.000001, .meaning = "95th percentile of it"),
    FIELD(duration_seconds_p50, FIELD_REAL, .unit = UNIT_SECONDS, .origin = "learn",
          .resolution = 0.000001, .meaning = "median wall time"),
    FIELD(duration_seconds_p95, FIELD_REAL, .unit = UNIT_SECONDS, .origin = "learn",
          .resolution = 0.000001, .meaning = "95th percentile of it"),
    FIELD(failure_rate, FIELD_REAL, .origin = "learn", .resolution = 0.0001,
          .meaning = "share of the runs with a known outcome that failed, 0 to 1"),
#undef FIELD
};
const struct record resource_estimate_record =
    RECORD_OF(struct resource_estimate, "ResourceEstimate", resource_estimate_fields);
