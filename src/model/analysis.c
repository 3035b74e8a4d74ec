#include "model/analysis.h"

#include "base/macros.h"

static const struct field correlation_fields[] = {
#define FIELD(member, type, ...)                                                                   \
    FIELD_OF(struct correlation, member, type, .origin = "learn", __VA_ARGS__)
    FIELD(job_type, FIELD_TEXT, .meaning = "type of the runs; null: runs of all types"),
    FIELD(pattern_name, FIELD_TEXT, .required = true,
          .meaning = "name of its pattern, if it is stored as one: `[memory_vs_failure] 1-2GB of "
                     "make test`"),
    FIELD(description, FIELD_TEXT, .meaning = "the finding as text"),
    FIELD(figure, FIELD_TEXT,
          .meaning = "figure that defines the group: memory, cpu, syscall, anomaly or duration"),
    FIELD(group, FIELD_TEXT, .meaning = "the property that the runs of the group share"),
    FIELD(runs, FIELD_INT, .unit = UNIT_COUNT, .meaning = "number of runs in the group"),
    FIELD(failures, FIELD_INT, .unit = UNIT_COUNT, .meaning = "number of these runs that failed"),
    FIELD(failure_rate, FIELD_REAL, .resolution = 0.000001,
          .meaning = "failures divided by runs, 0 to 1"),
    FIELD(rate_low, FIELD_REAL, .resolution = 0.000001,
          .meaning = "lower end of Wilson's 95 % interval of the failure rate"),
    FIELD(rate_high, FIELD_REAL, .resolution = 0.000001, .meaning = "upper end of that interval"),
    FIELD(baseline_rate, FIELD_REAL, .resolution = 0.000001,
          .meaning = "failure rate of all runs of the type for which the figure is known"),
    FIELD(deviation, FIELD_REAL, .resolution = 0.000001,
          .meaning = "failure_rate minus baseline_rate"),
    FIELD(share, FIELD_REAL, .resolution = 0.000001,
          .meaning = "the group's share of those runs, 0 to 1"),
    FIELD(confidence, FIELD_REAL, .resolution = 0.0001,
          .meaning =
              "0 to 1, from the size of the group and its deviation; does not account for chance"),
    FIELD(p_value, FIELD_REAL,
          .meaning = "Fisher's exact test: probability of such a deviation by chance"),
    FIELD(q_value, FIELD_REAL,
          .meaning = "false discovery rate over all groups tested (Benjamini and Hochberg)"),
    FIELD(significant, FIELD_BOOL, .meaning = "q_value is 0.05 or less"),
    FIELD(context_tags, FIELD_TEXTS, .meaning = "properties, as name:value"),
    FIELD(suggested_action, FIELD_TEXT, .meaning = "recommended action"),
#undef FIELD
};
const struct record correlation_record =
    RECORD_OF(struct correlation, "Correlation", correlation_fields);

static const char *const verdict_names[] = {
    [VERDICT_UNKNOWN] = NULL,
    [VERDICT_FOUND] = "found",
    [VERDICT_NOTHING_FOUND] = "nothing_found",
    [VERDICT_TOO_FEW_RUNS] = "too_few_runs",
    [VERDICT_NO_OUTCOMES] = "no_outcomes",
    [VERDICT_ALL_ALIKE] = "all_alike",
};

static const struct field analysis_fields[] = {
#define FIELD(member, type, ...) FIELD_OF(struct analysis, member, type, __VA_ARGS__)
    FIELD(as_of, FIELD_REAL, .required = true, .unit = UNIT_EPOCH, .resolution = 0.001,
          .meaning = "time of the analysis"),
    FIELD(since, FIELD_REAL, .unit = UNIT_EPOCH, .resolution = 0.001,
          .meaning = "the analysis covers runs that ended at this time or later"),
    FIELD(verdict, FIELD_ENUM, .names = verdict_names, .name_count = ARRAY_SIZE(verdict_names),
          .meaning = "found, nothing_found, too_few_runs, no_outcomes, or all_alike (all runs "
                     "failed, or none)"),
    FIELD(message, FIELD_TEXT, .meaning = "the verdict as text"),
    FIELD(runs, FIELD_INT, .unit = UNIT_COUNT, .meaning = "number of runs with a known outcome"),
    FIELD(failures, FIELD_INT, .unit = UNIT_COUNT, .meaning = "number of these runs that failed"),
    FIELD(failure_rate, FIELD_REAL, .resolution = 0.000001,
          .meaning = "failures divided by runs, 0 to 1"),
    FIELD(runs_without_outcome, FIELD_INT, .unit = UNIT_COUNT,
          .meaning = "number of runs in that period whose outcome is unknown"),
    FIELD(runs_left_out, FIELD_INT, .unit = UNIT_COUNT,
          .meaning = "0; null: there were more runs than the limit, and only the latest were used"),
    FIELD(min_sample_size, FIELD_INT, .unit = UNIT_COUNT,
          .meaning =
              "smallest number of runs for an analysis (profiler.correlation.min_sample_size)"),
    FIELD(types_left_out, FIELD_INT, .unit = UNIT_COUNT,
          .meaning = "number of job types that were not analyzed, because others have more runs"),
    FIELD(groups_tested, FIELD_INT, .unit = UNIT_COUNT,
          .meaning = "number of groups tested, of all types"),
    FIELD(correlations, FIELD_RECORDS, .alias = "groups", .record = &correlation_record,
          .meaning = "groups that deviate, the smallest probability of chance first"),
    FIELD(patterns, FIELD_RECORDS, .record = &pattern_record,
          .meaning = "all stored patterns, including those of anomalies"),
#undef FIELD
};
const struct record analysis_record = RECORD_OF(struct analysis, "Analysis", analysis_fields);
