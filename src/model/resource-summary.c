#include "model/resource-summary.h"

static const struct field resource_sample_fields[] = {
#define FIELD(member, type, ...) FIELD_OF(struct sonde_sample, member, type, __VA_ARGS__)
    FIELD(timestamp, FIELD_REAL, .required = true, .unit = UNIT_SECONDS,
          .origin = "monotonic clock", .meaning = "time of the sample"),
    FIELD(cpu_percent, FIELD_REAL, .unit = UNIT_PERCENT, .origin = "CPU clock",
          .meaning = "CPU use since the previous sample"),
    FIELD(rss_mb, FIELD_REAL, .unit = UNIT_MB, .origin = "statm",
          .meaning = "RSS, summed over all processes"),
    FIELD(gpu_util, FIELD_REAL, .unit = UNIT_PERCENT, .origin = "GPU source",
          .meaning = "share of time in which the GPU was busy"),
    FIELD(gpu_mem_mb, FIELD_REAL, .unit = UNIT_MB, .origin = "GPU source",
          .meaning = "GPU memory in use"),
    FIELD(gpu_clock_mhz, FIELD_REAL, .unit = UNIT_MHZ, .origin = "GPU source",
          .meaning = "GPU clock"),
    FIELD(gpu_power_w, FIELD_REAL, .unit = UNIT_WATT, .origin = "GPU source",
          .meaning = "GPU power draw"),
#undef FIELD
};
const struct record resource_sample_record =
    RECORD_OF(struct sonde_sample, "ResourceSample", resource_sample_fields);

static const struct field resource_summary_fields[] = {
#define FIELD(member, type, ...) FIELD_OF(struct sonde_summary, member, type, __VA_ARGS__)
    FIELD(peak_rss_mb, FIELD_REAL, .required = true, .unit = UNIT_MB, .origin = "statm, status",
          .meaning = "largest RSS; the kernel's high-water mark, if it rose during the run"),
    FIELD(mean_rss_mb, FIELD_REAL, .required = true, .unit = UNIT_MB, .origin = "statm",
          .meaning = "mean over all samples"),
    FIELD(peak_gpu_mem_mb, FIELD_REAL, .key_required = true, .unit = UNIT_MB,
          .origin = "GPU source", .meaning = "largest GPU memory in a sample"),
    FIELD(mean_gpu_util, FIELD_REAL, .key_required = true, .unit = UNIT_PERCENT,
          .origin = "GPU source", .meaning = "mean over the samples that have the figure"),
    FIELD(memory_growth_mb, FIELD_REAL, .required = true, .unit = UNIT_MB, .origin = "statm",
          .meaning = "last RSS minus the first"),
    FIELD(num_samples, FIELD_INT, .required = true, .unit = UNIT_COUNT, .origin = "libsonde",
          .meaning = "number of samples, including those no longer kept"),
    FIELD(duration_sec, FIELD_REAL, .required = true, .unit = UNIT_SECONDS,
          .origin = "monotonic clock", .meaning = "time from the first sample to the last"),
    FIELD(mean_gpu_clock_mhz, FIELD_REAL, .omit_unknown = true, .unit = UNIT_MHZ,
          .origin = "GPU source",
          .meaning = "mean over the samples that have the figure; omitted if unknown"),
    FIELD(mean_gpu_power_w, FIELD_REAL, .omit_unknown = true, .unit = UNIT_WATT,
          .origin = "GPU source",
          .meaning = "mean over the samples that have the figure; omitted if unknown"),
    FIELD(mean_cpu_percent, FIELD_REAL, .unit = UNIT_PERCENT, .origin = "CPU clock",
          .meaning = "CPU time divided by the duration"),
    FIELD(cpu_seconds, FIELD_REAL, .unit = UNIT_SECONDS, .origin = "CPU clock, ledger",
          .meaning = "CPU time, including children that started and ended between samples"),
#undef FIELD
};
const struct record resource_summary_record =
    RECORD_OF(struct sonde_summary, "ResourceSummary", resource_summary_fields);
