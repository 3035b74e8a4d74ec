/* A second implementation of the rules and episodes, slow and simple: it keeps whole snapshots and
 * computes everything anew at every check. The tests compare the detector with it. */
#pragma once

#include "detect/detect-constants.h"
#include "detect/finding.h"

#define REFERENCE_SNAPSHOTS_MAX 128
#define REFERENCE_PROCESSES_MAX 8
#define REFERENCE_EVENTS_MAX    4
/* At one check: every rule for every process, every event and the machine. */
#define REFERENCE_FINDINGS_MAX (REFERENCE_PROCESSES_MAX * 6 + REFERENCE_EVENTS_MAX + 1)
#define REFERENCE_REPORTS_MAX  256

struct reference_snapshot {
    uint64_t ns;
    double timestamp;
    int64_t daemon_pid;
    double total_mb;
    double available_mb;
    struct process_metric processes[REFERENCE_PROCESSES_MAX];
    size_t process_count;
    struct process_event events[REFERENCE_EVENTS_MAX];
    size_t event_count;
    const char *ended_run; /* before it; NULL: none */
};

struct reference_finding {
    enum anomaly_kind kind;
    int64_t pid;
    uint64_t start_ticks;
    bool is_process;
    const char *run_id;
    int severity;
    double value;
    double threshold;
};

struct reference_episode {
    enum anomaly_kind kind;
    const char *run_id;
    bool is_folded;
    int64_t pid; /* of an episode that is not folded */
    uint64_t start_ticks;
    size_t opened; /* the snapshot */
    bool is_cleared;
};

enum reference_phase {
    PHASE_OPENING,
    PHASE_CHANGE,
    PHASE_CLEARING,
};

struct reference_report {
    enum reference_phase phase;
    enum anomaly_kind kind;
    double timestamp;
    int64_t pid;
    const char *run_id;
    int severity;
    double value;
    double threshold;
    double cleared_at;
};

struct reference {
    struct anomaly_config config;
    struct detect_constants constants;
    struct reference_snapshot snapshots[REFERENCE_SNAPSHOTS_MAX];
    struct reference_finding findings[REFERENCE_SNAPSHOTS_MAX][REFERENCE_FINDINGS_MAX];
    size_t finding_counts[REFERENCE_SNAPSHOTS_MAX];
    size_t count;
    struct reference_episode episodes[REFERENCE_SNAPSHOTS_MAX * 8];
    size_t episode_count;
    struct reference_report reports[REFERENCE_REPORTS_MAX]; /* at the last check */
    size_t report_count;
};

/* Forgets all snapshots. */
void reference_reset(struct reference *reference);
/* The next snapshot, to be filled in before reference_check(). */
struct reference_snapshot *reference_add(struct reference *reference);
/* Checks the last snapshot. */
void reference_check(struct reference *reference);
size_t reference_open_count(const struct reference *reference);
bool reference_is_in_episode(const struct reference *reference, int64_t pid, uint64_t start_ticks);
