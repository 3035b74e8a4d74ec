#include "model/job.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/utf8.h"
#include "base/uuid.h"
#include "model/process.h"

#define JOB_ID_MAX_TEXT TEXT_OF(JOB_ID_MAX_BYTES)

const char *const outcome_names[OUTCOME_COUNT] = {
    [OUTCOME_NONE] = NULL,         [OUTCOME_RUNNING] = "running", [OUTCOME_SUCCESS] = "success",
    [OUTCOME_FAILURE] = "failure", [OUTCOME_UNKNOWN] = "unknown",
};

static const char *const exactness_names[] = {
    [EXACTNESS_UNKNOWN] = NULL,
    [EXACT] = "exact",
    [SAMPLED] = "sampled",
    [LOWER_BOUND] = "lower_bound",
};

static const struct field run_exactness_fields[] = {
#define FIGURE(kind, name, mark, ...)                                                              \
    FIGURE_##mark(FIELD_OF(struct run_exactness, name, FIELD_ENUM, .names = exactness_names,       \
                           .name_count = ARRAY_SIZE(exactness_names),                              \
                           .meaning = "exact, sampled or lower_bound"), )
#include "model/run-figures.h"
};
static const struct record run_exactness_record =
    RECORD_OF(struct run_exactness, "RunExactness", run_exactness_fields);

static const struct field sheet_metric_fields[] = {
#define FIELD(member, type, ...) FIELD_OF(struct sheet_metric, member, type, __VA_ARGS__)
    /* the key of the JSON object, so it must be first */
    FIELD(sheet_num, FIELD_INT, .required = true, .meaning = "number of the step"),
    FIELD(peak_rss_mb, FIELD_REAL, .unit = UNIT_MB, .resolution = 0.001,
          .meaning = "peak RSS of the largest process"),
    FIELD(max_cpu_pct, FIELD_REAL, .unit = UNIT_PERCENT, .resolution = 0.01,
          .meaning = "highest CPU use in one interval"),
#undef FIELD
};
static const struct record sheet_metric_record =
    RECORD_OF(struct sheet_metric, "SheetMetric", sheet_metric_fields);

static const struct field job_profile_fields[] = {
#define FIELD(member, type, ...)      FIELD_OF(struct job_profile, member, type, __VA_ARGS__)
#define FIGURE(kind, name, mark, ...) FIELD(name, FIELD_##kind, __VA_ARGS__),
#define IN_MB                         .unit = UNIT_MB, .resolution = 0.001
#define IN_SECONDS                    .unit = UNIT_SECONDS, .resolution = 0.000001
#define A_COUNT                       .unit = UNIT_COUNT
#define REPORTED                      .is_reported = true
#define LIVE                          .is_live = true
    FIELD(job_id, FIELD_TEXT, .meaning = "the job"),
#include "model/run-figures.h"
    FIELD(sheet_metrics, FIELD_KEYED, .record = &sheet_metric_record,
          .meaning = "figures by step number"),
    FIELD(exactness, FIELD_RECORD, .record = &run_exactness_record, REPORTED,
          .meaning = "exactness of each figure"),
#undef FIELD
};
const struct record job_profile_record =
    RECORD_OF(struct job_profile, "JobProfile", job_profile_fields);

static const struct field job_fields[] = {
#define FIELD(member, type, ...) FIELD_OF(struct job, member, type, __VA_ARGS__)
    FIELD(run_id, FIELD_TEXT, .required = true, .meaning = "id of this run (UUIDv7)"),
    FIELD(job_id, FIELD_TEXT, .required = true, .meaning = "the job"),
    FIELD(job_type, FIELD_TEXT, .holds_command = true,
          .meaning = "name that runs of the same work share"),
    FIELD(command, FIELD_TEXT, .holds_command = true, .meaning = "command line"),
    FIELD(cwd, FIELD_TEXT, .holds_command = true, .meaning = "working directory"),
    FIELD(uid, FIELD_INT, .meaning = "user id of the owner"),
    FIELD(host, FIELD_TEXT, .meaning = "name of the machine"),
    FIELD(started_at, FIELD_REAL, .unit = UNIT_EPOCH, .resolution = 0.000001,
          .meaning = "start time"),
    FIELD(ended_at, FIELD_REAL, .unit = UNIT_EPOCH, .resolution = 0.000001, .meaning = "end time"),
    FIELD(outcome, FIELD_ENUM, .names = outcome_names, .name_count = OUTCOME_COUNT,
          .meaning = "running, success, failure or unknown"),
    FIELD(exit_code, FIELD_INT, .meaning = "exit status, if no signal ended it"),
    FIELD(signal_num, FIELD_INT, .meaning = "the signal that ended it, if one did"),
    FIELD(cause, FIELD_TEXT, .holds_command = true, .meaning = "cause of the end, as text"),
    FIELD(total_sheets, FIELD_INT, .unit = UNIT_COUNT, .meaning = "number of steps"),
    FIELD(parent_run_id, FIELD_TEXT, .meaning = "id of the run in which it was started"),
    FIELD(chain, FIELD_RECORDS, .record = &process_event_record,
          .meaning = "chain of failures that led to the end: the first failed process, then its "
                     "parent, up to the first process of the run"),
    FIELD(profile, FIELD_RECORD, .record = &job_profile_record, .meaning = "resource use"),
#undef FIELD
};
const struct record job_record = RECORD_OF(struct job, "Job", job_fields);

static const struct field sheet_exactness_fields[] = {
#define FIELD(member)                                                                              \
    FIELD_OF(struct sheet_exactness, member, FIELD_ENUM, .names = exactness_names,                 \
             .name_count = ARRAY_SIZE(exactness_names),                                            \
             .meaning = "exact, sampled or lower_bound")
    FIELD(peak_rss_mb), FIELD(cpu_seconds), FIELD(processes), FIELD(read_bytes), FIELD(write_bytes),
#undef FIELD
};
static const struct record sheet_exactness_record =
    RECORD_OF(struct sheet_exactness, "SheetExactness", sheet_exactness_fields);

static const struct field sheet_fields[] = {
#define FIELD(member, type, ...) FIELD_OF(struct sheet, member, type, __VA_ARGS__)
    FIELD(run_id, FIELD_TEXT, .required = true, .meaning = "id of the run"),
    FIELD(sheet_num, FIELD_INT, .required = true, .meaning = "number of the step, from 0"),
    FIELD(name, FIELD_TEXT, .holds_command = true,
          .meaning = "name of the step, as the scheduler reported it"),
    FIELD(started_at, FIELD_REAL, .unit = UNIT_EPOCH, .resolution = 0.000001,
          .meaning = "start time"),
    FIELD(ended_at, FIELD_REAL, .unit = UNIT_EPOCH, .resolution = 0.000001, .meaning = "end time"),
    FIELD(outcome, FIELD_ENUM, .names = outcome_names, .name_count = OUTCOME_COUNT,
          .meaning = "running, success, failure or unknown"),
    FIELD(peak_rss_mb, FIELD_REAL, .is_live = true, .unit = UNIT_MB, .resolution = 0.001,
          .meaning = "peak RSS of the largest process"),
    FIELD(max_cpu_pct, FIELD_REAL, .is_live = true, .unit = UNIT_PERCENT, .resolution = 0.01,
          .meaning = "highest CPU use in one interval"),
    FIELD(cpu_seconds, FIELD_REAL, .is_live = true, .unit = UNIT_SECONDS, .resolution = 0.000001,
          .meaning = "CPU time of all processes"),
    FIELD(processes, FIELD_INT, .unit = UNIT_COUNT, .meaning = "number of processes started"),
    FIELD(read_bytes, FIELD_INT, .unit = UNIT_BYTES, .meaning = "bytes read from storage"),
    FIELD(write_bytes, FIELD_INT, .unit = UNIT_BYTES, .meaning = "bytes written to storage"),
    FIELD(starts, FIELD_INT, .unit = UNIT_COUNT, .meaning = "how often it was started"),
    FIELD(exactness, FIELD_RECORD, .record = &sheet_exactness_record,
          .meaning = "exactness of each figure"),
#undef FIELD
};
const struct record sheet_record = RECORD_OF(struct sheet, "Sheet", sheet_fields);

static const struct field memory_point_fields[] = {
#define FIELD(member, type, ...) FIELD_OF(struct memory_point, member, type, __VA_ARGS__)
    FIELD(timestamp, FIELD_REAL, .required = true, .unit = UNIT_EPOCH, .resolution = 0.001,
          .meaning = "time of the sample"),
    FIELD(rss_mb, FIELD_REAL, .unit = UNIT_MB, .resolution = 0.001,
          .meaning = "sum of RSS over all processes"),
    FIELD(processes, FIELD_INT, .unit = UNIT_COUNT, .meaning = "number of processes"),
#undef FIELD
};
const struct record memory_point_record =
    RECORD_OF(struct memory_point, "MemoryPoint", memory_point_fields);

static const struct field left_process_fields[] = {
#define FIELD(member, type, ...) FIELD_OF(struct left_process, member, type, __VA_ARGS__)
    FIELD(pid, FIELD_INT, .required = true, .meaning = "process id"),
    FIELD(command, FIELD_TEXT, .holds_command = true, .meaning = "command line"),
#undef FIELD
};
static const struct record left_process_record =
    RECORD_OF(struct left_process, "LeftProcess", left_process_fields);

static const struct field run_summary_fields[] = {
#define FIELD(member, type, ...) FIELD_OF(struct run_summary, member, type, __VA_ARGS__)
    FIELD(run_id, FIELD_TEXT, .required = true, .meaning = "id of this run (UUIDv7)"),
    FIELD(job_type, FIELD_TEXT, .holds_command = true,
          .meaning = "name that runs of the same work share"),
    FIELD(sheet_num, FIELD_INT, .meaning = "number of the step, if the run is a step"),
    FIELD(outcome, FIELD_ENUM, .names = outcome_names, .name_count = OUTCOME_COUNT,
          .meaning = "running, success, failure or unknown"),
    FIELD(exit_code, FIELD_INT, .meaning = "exit status, if no signal ended the command"),
    FIELD(signal_num, FIELD_INT, .meaning = "the signal that ended it, if one did"),
    FIELD(cause, FIELD_TEXT, .holds_command = true, .meaning = "cause of the end, as text"),
    FIELD(chain, FIELD_RECORDS, .record = &process_event_record,
          .meaning = "chain of failures that led to the end: the first failed process, then its "
                     "parent, up to the first process of the run"),
    FIELD(started_at, FIELD_REAL, .unit = UNIT_EPOCH, .resolution = 0.000001,
          .meaning = "start time"),
    FIELD(profile, FIELD_INLINE, .record = &job_profile_record, .meaning = "resource use"),
    FIELD(left_running, FIELD_RECORDS, .record = &left_process_record,
          .meaning = "processes that the command left running"),
    FIELD(anomalies, FIELD_RECORDS, .record = &anomaly_record, .meaning = "anomalies"),
#undef FIELD
};
const struct record run_summary_record =
    RECORD_OF(struct run_summary, "RunSummary", run_summary_fields);

void sheet_set_figures(struct sheet *sheet, const struct job_profile *profile)
{
    sheet->peak_rss_mb = profile->peak_rss_mb;
    sheet->max_cpu_pct = profile->max_cpu_pct;
    sheet->cpu_seconds = profile->cpu_seconds;
    sheet->processes = profile->processes;
    sheet->read_bytes = profile->read_bytes;
    sheet->write_bytes = profile->write_bytes;
    sheet->exactness.peak_rss_mb = profile->exactness.peak_rss_mb;
    sheet->exactness.cpu_seconds = profile->exactness.cpu_seconds;
    sheet->exactness.processes = profile->exactness.processes;
    sheet->exactness.read_bytes = profile->exactness.read_bytes;
    sheet->exactness.write_bytes = profile->exactness.write_bytes;
}

struct character_range {
    uint32_t first;
    uint32_t last;
};

static bool is_within(const struct character_range *ranges, size_t count, uint32_t character)
{
    for (size_t i = 0; i < count; i++)
        if (character >= ranges[i].first && character <= ranges[i].last)
            return true;
    return false;
}

/* Characters without a visible form: soft hyphen, joiners, fillers, byte order mark, tags. With
 * them, two different names can look the same. */
static bool is_invisible(uint32_t character)
{
    static const struct character_range ranges[] = {
        {0x00AD, 0x00AD}, {0x115F, 0x1160}, {0x180E, 0x180E}, {0x200B, 0x200F}, {0x2028, 0x202E},
        {0x2060, 0x206F}, {0x3164, 0x3164}, {0xFEFF, 0xFEFF}, {0xFFA0, 0xFFA0}, {0xE0000, 0xE007F},
    };
    return is_within(ranges, ARRAY_SIZE(ranges), character);
}

static bool is_blank(uint32_t character)
{
    static const struct character_range ranges[] = {
        {0x0020, 0x0020}, {0x00A0, 0x00A0}, {0x1680, 0x1680}, {0x2000, 0x200A},
        {0x202F, 0x202F}, {0x205F, 0x205F}, {0x2800, 0x2800}, {0x3000, 0x3000},
    };
    return is_within(ranges, ARRAY_SIZE(ranges), character);
}

/* Returns the problem with the characters, or NULL if they are valid. */
static const char *check_characters(const char *text, size_t length)
{
    uint32_t character = 0;

    for (size_t i = 0, size; i < length; i += size) {
        size = utf8_decode(text + i, length - i, &character);
        if (!size)
            return "is not valid UTF-8";
        if (utf8_is_control(character))
            return "contains a control character";
        if (is_invisible(character))
            return "contains an invisible character";
        if (i == 0 && is_blank(character))
            return "begins with a blank";
    }
    return is_blank(character) ? "ends with a blank" : NULL;
}

int job_id_check(const char *job_id, const char **ret_reason)
{
    size_t length = strlen(job_id);
    const char *reason;

    if (!length)
        reason = "is empty";
    else if (length > JOB_ID_MAX_BYTES)
        reason = "is longer than " JOB_ID_MAX_TEXT " bytes";
    else if (strchr(job_id, '~'))
        reason = "contains '~', which names earlier runs (JOB~1)";
    else if (uuid_looks_like(job_id))
        reason = "looks like a run_id";
    else
        reason = check_characters(job_id, length);
    if (!reason)
        return 0;
    *ret_reason = reason;
    return -EINVAL;
}

/* The sizes of the parts of default names, with a NUL: a program, and an argument or a directory.
 * Together they have about as many bytes as a job id may have. */
#define PROGRAM_SIZE 64
#define PART_SIZE    32

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

static bool is_plain(uint32_t character)
{
    return !utf8_is_control(character) && !is_invisible(character) &&
           (character == ' ' || !is_blank(character));
}

/* Replaces invalid bytes, control and invisible characters, blanks other than ' ' and the ASCII
 * characters of `unwanted` by '_', one for each byte. */
static void make_plain(char *text, const char *unwanted)
{
    for (char *at = text; *at;) {
        uint32_t character;
        size_t size = utf8_decode(at, strlen(at), &character);
        bool is_bad = !size || !is_plain(character) || (size == 1 && strchr(unwanted, *at));

        size = size ? size : 1;
        if (is_bad)
            memset(at, '_', size);
        at += size;
    }
}

/* Writes the program's name in a form that is valid as a job id. */
static void program_name(const char *argv0, char *into, size_t size)
{
    const char *name = base_name(argv0);

    utf8_clean(into, size, name, strlen(name));
    make_plain(into, "~ ");
    const char *reason;
    if (job_id_check(into, &reason) < 0)
        snprintf(into, size, "job");
}

void job_id_format(const char *const *argv, unsigned random16, char *into, size_t size)
{
    char program[PROGRAM_SIZE];

    program_name(argv[0], program, sizeof(program));
    snprintf(into, size, "%s-%04x", program, random16 & 0xFFFF);
}

void job_type_format(const char *const *argv, const char *cwd, char *into, size_t size)
{
    char program[PROGRAM_SIZE], word[1 + PART_SIZE] = "", place[2 + PART_SIZE] = "";
    const char *first_word = NULL;

    program_name(argv[0], program, sizeof(program));
    for (size_t i = 1; argv[i] && !first_word; i++)
        if (argv[i][0] != '-' && argv[i][0] != '\0')
            first_word = argv[i];
    if (first_word) {
        word[0] = ' ';
        utf8_clean(word + 1, PART_SIZE, first_word, strlen(first_word));
    }
    if (cwd) {
        const char *directory = base_name(cwd);
        place[0] = ' ';
        place[1] = '@';
        utf8_clean(place + 2, PART_SIZE, directory, strlen(directory));
    }

    char joined[sizeof(program) + sizeof(word) + sizeof(place)];
    snprintf(joined, sizeof(joined), "%s%s%s", program, word, place);
    make_plain(joined, "~");
    size_t length =
        utf8_clean(into, MIN(size, (size_t)JOB_ID_MAX_BYTES + 1), joined, strlen(joined));
    while (length && into[length - 1] == ' ')
        into[--length] = '\0';
}

const char *outcome_name(int outcome)
{
    return outcome_names[outcome];
}

bool job_is_lost(const struct job *job)
{
    return job->outcome == OUTCOME_UNKNOWN && job->cause && strcmp(job->cause, CAUSE_LOST) == 0;
}

double job_duration_seconds(const struct job *job)
{
    return real_is_known(job->profile.wall_seconds) ? job->profile.wall_seconds
                                                    : job->ended_at - job->started_at;
}

static bool count(int64_t *value, bool is_one_more)
{
    bool is_changed = is_one_more || !int_is_known(*value);

    if (!int_is_known(*value))
        *value = 0;
    *value += is_one_more && *value < INT64_MAX; /* a stored count may be damaged */
    return is_changed;
}

unsigned job_profile_add_event(struct job_profile *profile, const struct process_event *event)
{
    bool is_kill = event->event_type == EVENT_KILL;
    bool is_failure =
        event->event_type == EVENT_EXIT && int_is_known(event->exit_code) && event->exit_code != 0;
    bool is_problem = false;

    if (event->is_step == TRUTH_YES)
        return 0;
    switch (event->event_type) {
    case EVENT_SPAWN: count(&profile->processes, true); return COUNTED_PROCESS;
    case EVENT_SIGNAL: count(&profile->signal_count, true); return COUNTED_PROBLEM;
    case EVENT_OOM: count(&profile->oom_count, true); return COUNTED_PROBLEM;
    case EVENT_EXIT:
    case EVENT_KILL:
        /* A source of exits also reports kills: without any, the count is 0, not unknown. */
        count(&profile->exit_count, true);
        is_problem |= count(&profile->kill_count, is_kill);
        is_problem |= count(&profile->failed_exit_count, is_failure);
        return COUNTED_PROCESS | (is_problem ? COUNTED_PROBLEM : 0);
    default: return 0;
    }
}

void job_profile_set_syscalls(struct job_profile *profile, const struct run_syscalls *syscalls)
{
    profile->syscall_hotspots = syscalls->hotspots;
    profile->syscall_counts = syscalls->counts;
    profile->syscall_seconds = syscalls->seconds;
    profile->syscall_errors = syscalls->errors;
    profile->syscall_source = syscalls->source;
    profile->exactness.syscall_hotspots = syscalls->exactness;
}

int job_profile_exactness(const struct job_profile *profile, const struct field *figure)
{
    const char *name = figure->exactness ? figure->exactness : figure->name;
    const struct field *exactness = record_find(&run_exactness_record, name);

    if (!exactness)
        return -ENOENT;
    int stated = *(const int *)((const char *)&profile->exactness + exactness->offset);
    return !stated && figure->is_low ? LOWER_BOUND : stated;
}

bool job_is_named(const char *wanted, const char *job_id, const char *run_id)
{
    return (job_id && strcmp(wanted, job_id) == 0) || (run_id && strcmp(wanted, run_id) == 0);
}
