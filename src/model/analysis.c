#include "model/analysis.h"

#include "base/macros.h"

static const struct field correlation_fields[] = {
#define FIELD(member, type, ...)                                                                   \
    FIELD_OF(struct correlation, member, type, .origin = "learn", __VA_ARGS__)
    FIELD(pattern_name, FIELD_TEXT, .required = true,
          .meaning = "what it is kept by, if it is: `[memory_vs_failure] 1-2GB`"),
    FIELD(description, FIELD_TEXT, .meaning = "the same in words"),
    FIELD(figure, FIELD_TEXT, .meaning = "memory, cpu, syscall, anomaly or duration"),
    FIELD(group, FIELD_TEXT, .meaning = "what the runs of the group have in common"),
    FIELD(runs, FIELD_INT, .unit = UNIT_COUNT, .meaning = "in the group"),
    FIELD(failures, FIELD_INT, .unit = UNIT_COUNT, .meaning = "how many of them failed"),
    FIELD(failure_rate, FIELD_REAL, .resolution = 0.000001, .meaning = "their share, 0 to 1"),
    FIELD(rate_low, FIELD_REAL, .resolution = 0.000001,
          .meaning = "where the rate may truly lie: Wilson's 95 % interval"),
    FIELD(rate_high, FIELD_REAL, .resolution = 0.000001, .meaning = "its other end"),
    FIELD(baseline_rate, FIELD_REAL, .resolution = 0.000001,
          .meaning = "failure rate of all runs where the figure is known"),
    FIELD(deviation, FIELD_REAL, .resolution = 0.000001,
          .meaning = "failure_rate less baseline_rate"),
    FIELD(share, FIELD_REAL, .resolution = 0.000001, .meaning = "of those runs, 0 to 1"),
    FIELD(confidence, FIELD_REAL, .resolution = 0.0001,
          .meaning = "0 to 1: how large and how far off the group is, whatever chance may do"),
    FIELD(p_value, FIELD_REAL,
          .meaning = "Fisher's exact test: how likely chance alone gives as much"),
    FIELD(q_value, FIELD_REAL,
          .meaning = "which share of findings as unlikely as this chance alone would give, among "
                     "all groups that were tested (Benjamini and Hochberg)"),
    FIELD(significant, FIELD_BOOL, .meaning = "q_value is 0.05 or less"),
    FIELD(context_tags, FIELD_TEXTS, .meaning = "what it is about, as name:value"),
    FIELD(suggested_action, FIELD_TEXT, .meaning = "what to do about it"),
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
          .meaning = "when it was made"),
    FIELD(since, FIELD_REAL, .unit = UNIT_EPOCH, .resolution = 0.001,
          .meaning = "runs that ended then or later count"),
    FIELD(verdict, FIELD_ENUM, .names = verdict_names, .name_count = ARRAY_SIZE(verdict_names),
          .meaning = "found, nothing_found, too_few_runs, no_outcomes, or all_alike: all have "
                     "failed, or none"),
    FIELD(message, FIELD_TEXT, .meaning = "the same in words"),
    FIELD(runs, FIELD_INT, .unit = UNIT_COUNT, .meaning = "that count: their outcome is known"),
    FIELD(failures, FIELD_INT, .unit = UNIT_COUNT, .meaning = "how many of them failed"),
    FIELD(failure_rate, FIELD_REAL, .resolution = 0.000001, .meaning = "their share, 0 to 1"),
    FIELD(runs_without_outcome, FIELD_INT, .unit = UNIT_COUNT,
          .meaning = "that ended in that time, nobody knows how"),
    FIELD(runs_left_out, FIELD_INT, .unit = UNIT_COUNT,
          .meaning = "0; null: there were more than are looked at, and the latest were taken"),
    FIELD(min_sample_size, FIELD_INT, .unit = UNIT_COUNT,
          .meaning = "how many runs it takes (profiler.correlation.min_sample_size)"),
    FIELD(groups_tested, FIELD_INT, .unit = UNIT_COUNT,
          .meaning = "how many groups were looked at, found or not"),
    FIELD(correlations, FIELD_RECORDS, .record = &correlation_record,
          .meaning = "groups that differ, the least likely to be chance first"),
    FIELD(patterns, FIELD_RECORDS, .record = &pattern_record,
          .meaning = "all that is kept of this and of anomalies"),
#undef FIELD
};
const struct record analysis_record = RECORD_OF(struct analysis, "Analysis", analysis_fields);
