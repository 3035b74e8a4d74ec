#include "model/resource-summary.h"

static const struct field resource_sample_fields[] = {
#define FIELD(member, type, ...) FIELD_OF(struct sonde_sample, member, type, __VA_ARGS__)
    FIELD(timestamp, FIELD_REAL, .required = true, .unit = UNIT_SECONDS,
          .origin = "monotonic clock", .meaning = "when it was taken"),
    FIELD(cpu_percent, FIELD_REAL, .unit = UNIT_PERCENT, .origin = "CPU clock",
          .meaning = "since the sample before"),
    FIELD(rss_mb, FIELD_REAL, .unit = UNIT_MB, .origin = "statm",
          .meaning = "memory in RAM, of all processes together"),
    FIELD(gpu_util, FIELD_REAL, .unit = UNIT_PERCENT, .origin = "GPU source",
          .meaning = "share of time the GPU was busy"),
    FIELD(gpu_mem_mb, FIELD_REAL, .unit = UNIT_MB, .origin = "GPU source",
          .meaning = "its memory in use"),
    FIELD(gpu_clock_mhz, FIELD_REAL, .unit = UNIT_MHZ, .origin = "GPU source",
          .meaning = "its clock"),
    FIELD(gpu_power_w, FIELD_REAL, .unit = UNIT_WATT, .origin = "GPU source",
          .meaning = "the power it draws"),
#undef FIELD
};
const struct record resource_sample_record =
    RECORD_OF(struct sonde_sample, "ResourceSample", resource_sample_fields);

static const struct field resource_summary_fields[] = {
#define FIELD(member, type, ...) FIELD_OF(struct sonde_summary, member, type, __VA_ARGS__)
    FIELD(peak_rss_mb, FIELD_REAL, .required = true, .unit = UNIT_MB, .origin = "statm, status",
          .meaning = "the most memory in RAM: the high-water mark, if it rose meanwhile"),
    FIELD(mean_rss_mb, FIELD_REAL, .required = true, .unit = UNIT_MB, .origin = "statm",
          .meaning = "over all samples"),
    FIELD(peak_gpu_mem_mb, FIELD_REAL, .is_announced = true, .unit = UNIT_MB,
          .origin = "GPU source", .meaning = "the most GPU memory in a sample"),
    FIELD(mean_gpu_util, FIELD_REAL, .is_announced = true, .unit = UNIT_PERCENT,
          .origin = "GPU source", .meaning = "over the samples that have it"),
    FIELD(memory_growth_mb, FIELD_REAL, .required = true, .unit = UNIT_MB, .origin = "statm",
          .meaning = "last RSS less the first"),
    FIELD(num_samples, FIELD_INT, .required = true, .unit = UNIT_COUNT, .origin = "libsonde",
          .meaning = "samples taken, whether kept or not"),
    FIELD(duration_sec, FIELD_REAL, .required = true, .unit = UNIT_SECONDS,
          .origin = "monotonic clock", .meaning = "from the first sample to the last"),
    FIELD(mean_gpu_clock_mhz, FIELD_REAL, .is_left_out = true, .unit = UNIT_MHZ,
          .origin = "GPU source", .meaning = "over the samples that have it; left out if unknown"),
    FIELD(mean_gpu_power_w, FIELD_REAL, .is_left_out = true, .unit = UNIT_WATT,
          .origin = "GPU source", .meaning = "the same"),
    FIELD(mean_cpu_percent, FIELD_REAL, .unit = UNIT_PERCENT, .origin = "CPU clock",
          .meaning = "CPU time over the duration"),
    FIELD(cpu_seconds, FIELD_REAL, .unit = UNIT_SECONDS, .origin = "CPU clock, ledger",
          .meaning = "CPU time, children that came and went included"),
#undef FIELD
};
const struct record resource_summary_record =
    RECORD_OF(struct sonde_summary, "ResourceSummary", resource_summary_fields);
