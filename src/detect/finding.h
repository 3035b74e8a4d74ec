/* A finding: a rule that fired in one snapshot, the output of the first stage. The snapshot and the
 * events own its texts. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"
#include "base/vec.h"
#include "model/event.h"

enum anomaly_kind {
    ANOMALY_MEMORY_SPIKE,
    ANOMALY_RUNAWAY_PROCESS,
    ANOMALY_ZOMBIE,
    ANOMALY_FD_EXHAUSTION,
    ANOMALY_MEMORY_PRESSURE,
    ANOMALY_OOM_KILL,
    ANOMALY_MEMORY_LEAK,
    ANOMALY_STUCK_PROCESS,
    ANOMALY_KINDS,
};

/* Returns the name of a kind, such as `memory_spike`. */
const char *anomaly_kind_name(enum anomaly_kind kind);

/* The process that a finding is about, or the machine. */
struct finding_subject {
    int64_t pid; /* INT_UNKNOWN: the machine */
    uint64_t start_ticks;
    bool is_process; /* it is in the snapshot; later snapshots show whether it is gone */
    int64_t uid;
    const char *command;
    const char *job_id;
    const char *run_id;
    int64_t sheet_num;
};

/* The figures for severity and description. */
struct finding_figures {
    int severity; /* enum severity */
    double value;
    double threshold;
    double of; /* the value before the growth, or the total that it is part of; may be unknown */
    double seconds; /* duration; unknown: irrelevant */
};

struct finding {
    enum anomaly_kind kind;
    struct finding_subject subject;
    struct finding_figures figures;
};

struct finding_list VEC(struct finding);

/* Returns whether `value` is worse than `other` by at least `factor` (1: worse at all). An unknown
 * value is never worse. */
bool finding_value_is_worse(enum anomaly_kind kind, double value, double other, double factor);

/* Returns whether `figures` are worse than `other`, by severity and then by value. */
bool finding_is_worse(enum anomaly_kind kind, const struct finding_figures *figures,
                      const struct finding_figures *other);

/* Appends the name of the process, escaped and cut: "python3 train.py (pid 4711)". */
void finding_name_subject(const struct finding_subject *subject, struct text *out);

/* Appends the description of a finding: "[name] grew from 210.0 MB to 2.10 GB in 30.00 s". */
void finding_describe(enum anomaly_kind kind, const char *name,
                      const struct finding_figures *figures, struct text *out);
