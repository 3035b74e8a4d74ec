/* Job (one run of a job), Sheet (a step), JobProfile, and the summary that `sonde run --summary`
 * writes. */
#pragma once

#include "model/event.h"
#include "model/field.h"

/* Limit of job ids and job types, because they appear in file names, logs and on screen. */
#define JOB_ID_MAX_BYTES 128
/* With the number that distinguishes it from running jobs of the same name: `make-2`. */
#define JOB_ID_NUMBERED_MAX_BYTES (JOB_ID_MAX_BYTES + 8)

enum outcome {
    OUTCOME_NONE, /* null: none is recorded */
    OUTCOME_RUNNING,
    OUTCOME_SUCCESS,
    OUTCOME_FAILURE,
    OUTCOME_UNKNOWN, /* the run has ended; how is not known */
    OUTCOME_COUNT,
};

extern const char *const outcome_names[OUTCOME_COUNT];

/* Returns whether `wanted` is the job_id or the run_id of a run (NULL: unknown). */
bool job_is_named(const char *wanted, const char *job_id, const char *run_id);

/* How exact a figure of a whole run is. */
enum exactness {
    EXACTNESS_UNKNOWN,
    EXACT,
    SAMPLED,     /* the largest sampled value; a higher one between samples is possible */
    LOWER_BOUND, /* data is missing, or may be */
};

/* Of the marked figures: each member is an enum exactness. */
struct run_exactness {
#define FIGURE(kind, name, mark, ...) FIGURE_##mark(int name;)
#define FIGURE_MARKED(...)            __VA_ARGS__
#define FIGURE_UNMARKED(...)
#include "model/run-figures.h"
};

/* Figures of one step within a run's profile. */
struct sheet_metric {
    int64_t sheet_num;
    double peak_rss_mb;
    double max_cpu_pct;
};

struct sheet_metric_list LIST(struct sheet_metric);

/* The three ways to count the memory of a run, named alike in all output. */
#define LARGEST_PROCESS "largest process" /* peak_rss_mb */
#define ALL_PROCESSES   "all processes"   /* peak_total_mb */
#define TOGETHER        "together"        /* peak_unique_min_mb to peak_unique_mb */

/* The figures of a run: see run-figures.h. */
struct job_profile {
    const char *job_id;
#define FIGURE(kind, name, ...) FIGURE_##kind name;
#define FIGURE_REAL             double
#define FIGURE_INT              int64_t
#define FIGURE_TEXT             const char *
#define FIGURE_ENUM             int
#define FIGURE_TALLY            struct tally_list
#include "model/run-figures.h"
    struct sheet_metric_list sheet_metrics;
    struct run_exactness exactness;
};

/* System call figures of a run; all unknown if there are none. */
struct run_syscalls {
    struct tally_list hotspots; /* shares of time */
    struct tally_list counts;   /* unknown if sampled; so are the next two */
    struct tally_list seconds;
    struct tally_list errors;
    int source;    /* enum syscall_source */
    int exactness; /* enum exactness */
};

/* Returns the enum exactness of a figure of the profile; -ENOENT if the profile states none. */
int job_profile_exactness(const struct job_profile *profile, const struct field *figure);

enum {
    COUNTED_PROCESS = 1, /* the start or end of a process */
    COUNTED_PROBLEM = 2, /* a signal, kill, OOM kill or failed exit, or the first end */
};

/* Adds an event of the run to the counts of the profile. Returns the COUNTED_… that it is; 0: it is
 * not counted. */
unsigned job_profile_add_event(struct job_profile *profile, const struct process_event *event);

void job_profile_set_syscalls(struct job_profile *profile, const struct run_syscalls *syscalls);

/* One run of a job. */
struct job {
    const char *run_id;
    const char *job_id;
    const char *job_type;
    const char *command;
    const char *cwd;
    int64_t uid;
    const char *host;
    double started_at;
    double ended_at;
    int outcome; /* enum outcome */
    int64_t exit_code;
    int64_t signal_num;
    const char *cause;
    int64_t total_sheets;
    const char *parent_run_id;
    struct process_event_list chain; /* of failures: see model/cause.h */
    struct job_profile profile;
};

/* Of the figures of a step: each member is an enum exactness. */
struct sheet_exactness {
    int peak_rss_mb;
    int cpu_seconds;
    int processes;
    int read_bytes;
    int write_bytes;
};

/* One step of a run. */
struct sheet {
    const char *run_id;
    int64_t sheet_num;
    const char *name;
    double started_at;
    double ended_at;
    int outcome; /* enum outcome */
    double peak_rss_mb;
    double max_cpu_pct;
    double cpu_seconds;
    int64_t processes;
    int64_t read_bytes;
    int64_t write_bytes;
    int64_t starts;
    struct sheet_exactness exactness;
};

struct left_process {
    int64_t pid;
    const char *command;
};

struct left_process_list LIST(struct left_process);

struct run_summary {
    const char *run_id;
    const char *job_type;
    int64_t sheet_num;
    int outcome; /* enum outcome */
    int64_t exit_code;
    int64_t signal_num;
    const char *cause;
    struct process_event_list chain; /* of failures: see model/cause.h */
    double started_at;
    struct job_profile profile; /* with the job_id */
    struct left_process_list left_running;
    struct anomaly_list anomalies;
};

/* The memory of a run at one time. */
struct memory_point {
    double timestamp;
    double rss_mb; /* sum over all processes */
    int64_t processes;
};

struct job_list LIST(struct job);
struct memory_point_list LIST(struct memory_point);
struct sheet_list LIST(struct sheet);

/* The cause of a run that ended with its monitor, which could not report its outcome. Stored. */
#define CAUSE_LOST "lost"

extern const struct record job_record;
extern const struct record job_profile_record;
extern const struct record sheet_record;
extern const struct record memory_point_record;
extern const struct record run_summary_record;

/* Returns 0, or -EINVAL with the reason as text: empty, too long, `~` (which names earlier runs),
 * control or invisible characters, a blank at an end, invalid UTF-8, or the form of a UUID (which
 * names a run). */
int job_id_check(const char *job_id, const char **ret_reason);

/* Writes the default job type: program name, first argument that is not an option, base name of the
 * working directory (`make test @parser`). */
void job_type_format(const char *const *argv, const char *cwd, char *into, size_t size);

/* Writes the default job id: program name and four hex digits (`make-7f3a`). */
void job_id_format(const char *const *argv, unsigned random16, char *into, size_t size);

const char *outcome_name(int outcome);

/* Returns whether the outcome is unknown because the monitor of the run died first. */
bool job_is_lost(const struct job *job);

/* Gives a step that is a whole run the figures of that run. */
void sheet_set_figures(struct sheet *sheet, const struct job_profile *profile);

/* Returns the wall time of a run, from the monotonic clock if it was measured. */
double job_duration_seconds(const struct job *job);
