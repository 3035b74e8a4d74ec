#include "config/config-schema.h"

#include <assert.h>
#include <string.h>

#include "base/json-writer.h"
#include "base/macros.h"
#include "base/suggest.h"
#include "config/config.h"

#define MINUTE 60.0
#define HOUR   3600.0
#define DAY    86400.0

static const char *const scope_names[] = {[SCOPE_JOBS] = "jobs", [SCOPE_ALL] = "all"};
static const char *const collector_names[] = {
    [COLLECTOR_CHOICE_AUTO] = "auto",
    [COLLECTOR_CHOICE_BPF] = "bpf",
    [COLLECTOR_CHOICE_PROCFS] = "procfs",
};
static const char *const syscalls_names[] = {
    [SYSCALLS_CHOICE_AUTO] = "auto",
    [SYSCALLS_CHOICE_BPF] = "bpf",
    [SYSCALLS_CHOICE_STRACE] = "strace",
    [SYSCALLS_CHOICE_OFF] = "off",
};

#define NAMES(array) .names = (array), .name_count = ARRAY_SIZE(array)

#define KEY(key_path, member, key_type, ...)                                                       \
    {                                                                                              \
        .path = (key_path), .type = (key_type), .offset = offsetof(struct config, member),         \
        __VA_ARGS__                                                                                \
    }

const struct config_key config_keys[] = {
    KEY("profiler.enabled", enabled, CONFIG_BOOL, .needs_restart = true, .fallback = "true",
        .meaning = "whether the daemon takes samples"),
    KEY("profiler.interval_seconds", interval_seconds, CONFIG_REAL, .fallback = "5", .min = 0.01,
        .unit_seconds = 1, .meaning = "time between two snapshots"),
    KEY("profiler.scope", scope, CONFIG_CHOICE, .fallback = "jobs", NAMES(scope_names),
        .meaning = "which processes are stored and published; detection always uses all. `jobs`: "
                   "processes of jobs, zombies, processes in an open episode, the 20 with the most "
                   "CPU and the 20 with the most RSS"),
    KEY("profiler.collector", collector, CONFIG_CHOICE, .needs_restart = true, .fallback = "auto",
        NAMES(collector_names),
        .meaning = "how processes are read; `auto`: BPF if it loads, else /proc"),
    KEY("profiler.strace_enabled", strace_enabled, CONFIG_BOOL, .fallback = "false",
        .meaning =
            "attach `strace -c -w -f` to new processes of jobs. This slows them down a lot, and "
            "setuid programs (sudo) get no more rights than their user"),
    KEY("profiler.strace_full_on_demand", strace_full_on_demand, CONFIG_BOOL, .fallback = "true",
        .meaning = "allow full traces on request"),
    KEY("profiler.syscalls", syscalls, CONFIG_CHOICE, .fallback = "auto", NAMES(syscalls_names),
        .meaning =
            "how system calls of runs are measured. `auto`: sampled at each interval; `bpf`: every "
            "call counted, which slows all calls on the machine during a run; `strace`: as "
            "`profiler.strace_enabled`, without sampling"),
    KEY("profiler.gpu_enabled", gpu_enabled, CONFIG_SWITCH, .fallback = "auto",
        .meaning =
            "read GPUs; `auto`: if there is a device; `true`: query the drivers in any case, "
            "and report if there is no device"),
    KEY("profiler.storage_path", storage_path, CONFIG_PATH, .needs_restart = true,
        .fallback_note = "`monitor.db` in the state directory", .meaning = "the database"),
    KEY("profiler.jsonl_path", jsonl_path, CONFIG_PATH, .needs_restart = true, .allows_empty = true,
        .fallback_note = "`monitor.jsonl` in the state directory",
        .meaning =
            "the file to which the daemon writes one snapshot per line as JSON; empty: none"),
    KEY("profiler.jsonl_max_bytes", jsonl_max_bytes, CONFIG_INT, .needs_restart = true,
        .fallback = "52428800", .min = 1048576,
        .meaning = "size in bytes at which the daemon rotates that file"),
    KEY("profiler.redact", redact, CONFIG_WORDS,
        .fallback = "[token, password, secret, key, pass, passwd, passphrase, pwd, auth, "
                    "authorization, bearer, cookie, credential, credentials, pat]",
        .meaning = "names whose values in command lines are stored and shown as `***`"),

    KEY("profiler.retention.full_resolution_hours", retention.full_resolution_hours, CONFIG_REAL,
        .fallback = "24", .min = 1, .unit_seconds = HOUR,
        .meaning = "how long every snapshot is kept"),
    KEY("profiler.retention.downsampled_days", retention.downsampled_days, CONFIG_REAL,
        .fallback = "7", .min = 1, .unit_seconds = DAY,
        .meaning = "how long 1-minute averages are kept"),
    KEY("profiler.retention.events_days", retention.events_days, CONFIG_REAL, .fallback = "30",
        .min = 1, .unit_seconds = DAY, .meaning = "how long events are kept"),
    KEY("profiler.retention.jobs_days", retention.jobs_days, CONFIG_REAL, .fallback = "365",
        .min = 1, .unit_seconds = DAY,
        .meaning = "how long jobs, steps, anomalies and patterns are kept"),

    KEY("profiler.anomaly.memory_spike_threshold", anomaly.memory_spike_threshold, CONFIG_REAL,
        .fallback = "1.5", .min = 1, .min_excluded = true,
        .meaning = "growth factor of RSS within the window from which it is a spike"),
    KEY("profiler.anomaly.memory_spike_window_seconds", anomaly.memory_spike_window_seconds,
        CONFIG_REAL, .fallback = "30", .min_excluded = true, .unit_seconds = 1,
        .meaning = "how far back the growth is measured"),
    KEY("profiler.anomaly.memory_spike_min_mb", anomaly.memory_spike_min_mb, CONFIG_REAL,
        .fallback = "100", .meaning = "smallest growth in MB that is a spike"),
    KEY("profiler.anomaly.runaway_cpu_threshold", anomaly.runaway_cpu_threshold, CONFIG_REAL,
        .fallback = "90", .min = 50, .max = 100,
        .meaning = "CPU percentage of a runaway process; 100 is one core"),
    KEY("profiler.anomaly.runaway_duration_seconds", anomaly.runaway_duration_seconds, CONFIG_REAL,
        .fallback = "60", .min_excluded = true, .unit_seconds = 1,
        .meaning = "how long the CPU must stay above that percentage without a break"),
    KEY("profiler.anomaly.fd_exhaustion_threshold", anomaly.fd_exhaustion_threshold, CONFIG_INT,
        .fallback = "1000", .min = 1,
        .meaning =
            "number of open file descriptors, if the process's own limit is unknown or at most "
            "4096"),
    KEY("profiler.anomaly.fd_exhaustion_ratio", anomaly.fd_exhaustion_ratio, CONFIG_REAL,
        .fallback = "0.8", .max = 1,
        .meaning = "open file descriptors as a share of the process's own limit"),
    KEY("profiler.anomaly.memory_pressure_fraction", anomaly.memory_pressure_fraction, CONFIG_REAL,
        .fallback = "0.1", .max = 1,
        .meaning = "memory pressure: available memory is below this share of the total"),
    KEY("profiler.anomaly.clear_seconds", anomaly.clear_seconds, CONFIG_REAL, .fallback = "10",
        .unit_seconds = 1,
        .meaning = "an episode clears when its rule has not fired for this time and for 3 "
                   "snapshots"),

    KEY("profiler.correlation.interval_minutes", correlation.interval_minutes, CONFIG_REAL,
        .fallback = "30", .min = 5, .unit_seconds = MINUTE,
        .meaning = "time between two analyses of finished runs"),
    KEY("profiler.correlation.min_sample_size", correlation.min_sample_size, CONFIG_INT,
        .fallback = "5", .min = 2, .meaning = "smallest number of runs for an analysis"),

    KEY("limits.max_memory_mb", limits.max_memory_mb, CONFIG_REAL, .fallback = "auto", .min = 512,
        .allows_auto = true,
        .meaning = "memory in MB that all jobs together may use; `auto`: " TEXT_OF(
            LIMITS_AUTO_PCT) " % of what the machine "
                             "and its cgroups allow"),
    KEY("limits.max_processes", limits.max_processes, CONFIG_INT, .fallback = "auto", .min = 5,
        .allows_auto = true,
        .meaning = "processes that all jobs together may have; `auto`: " TEXT_OF(
            LIMITS_AUTO_PCT) " % of the pids limit"),

    KEY("daemon.access", daemon_access, CONFIG_ACCESS, .fallback = "owner",
        .meaning = "who may connect; the uid of a client decides what it may see"),
    KEY("daemon.stall_seconds", daemon_stall_seconds, CONFIG_REAL, .fallback = "30", .min = 1,
        .unit_seconds = 1,
        .meaning = "how long a client may leave a request unfinished or a response unread before "
                   "the daemon closes its connection"),

    KEY("jobs.linger_seconds", jobs.linger_seconds, CONFIG_REAL, .fallback = "30",
        .unit_seconds = 1,
        .meaning =
            "how long a job stays open after its last process has ended, if a rule found it or the "
            "daemon adopted it after a restart"),
    KEY("jobs.rules", jobs.rules, CONFIG_RULES,
        .fallback = "[{job_id: 'slurm-{SLURM_JOB_ID}', env: [SLURM_JOB_ID]},"
                    " {job_id: 'gha-{GITHUB_RUN_ID}-{GITHUB_JOB}',"
                    "  env: [GITHUB_RUN_ID, GITHUB_JOB]}]",
        .fallback_note = "built-in: Slurm, GitHub Actions",
        .meaning = "assign processes that are not registered to jobs; the first rule that matches "
                   "wins"),
};
const size_t config_key_count = ARRAY_SIZE(config_keys);

static_assert(ARRAY_SIZE(config_keys) <= CONFIG_KEYS_MAX, "arrays by key have room for all");

/* Returns the name that follows the section in the key's path, up to the next dot, or NULL if the
 * key is in another section. */
static const char *name_in_section(const struct config_key *key, struct config_section section,
                                   size_t *ret_length)
{
    if (strncmp(key->path, section.path, section.length) != 0)
        return NULL;
    *ret_length = strcspn(key->path + section.length, ".");
    return key->path + section.length;
}

const struct config_key *config_section_find(struct config_section section, const char *name,
                                             size_t length, bool *ret_is_leaf)
{
    for (size_t i = 0; i < config_key_count; i++) {
        size_t child_length;
        const char *child = name_in_section(&config_keys[i], section, &child_length);

        if (child && child_length == length && memcmp(child, name, length) == 0) {
            *ret_is_leaf = child[child_length] == '\0';
            return &config_keys[i];
        }
    }
    return NULL;
}

void config_section_suggest(struct config_section section, const char *name, size_t length,
                            struct text *out)
{
    struct suggestion nearest = {0};

    for (size_t i = 0; i < config_key_count; i++) {
        size_t child_length;
        const char *child = name_in_section(&config_keys[i], section, &child_length);
        if (child)
            suggestion_consider(&nearest, name, length, child, child_length);
    }
    if (nearest.name) {
        text_append(out, nearest.name, nearest.length);
        return;
    }

    /* The name exists in another section. */
    for (size_t i = 0; i < config_key_count; i++) {
        const char *last = strrchr(config_keys[i].path, '.') + 1;
        if (strlen(last) == length && memcmp(last, name, length) == 0) {
            text_append_string(out, config_keys[i].path);
            return;
        }
    }
}

size_t config_section_depth(const char *path)
{
    size_t depth = 0;

    for (; *path; path++)
        depth += *path == '.';
    return depth;
}

size_t config_shared_sections(const char *path, const char *other)
{
    size_t shared = 0;

    for (; *path && *path == *other; path++, other++)
        shared += *path == '.';
    return shared;
}

const char *config_type_noun(const struct config_key *key)
{
    switch (key->type) {
    case CONFIG_BOOL: return "a boolean";
    case CONFIG_SWITCH:
    case CONFIG_CHOICE:
    case CONFIG_ACCESS: return "one of the allowed words";
    case CONFIG_INT: return key->allows_auto ? "a whole number or auto" : "a whole number";
    case CONFIG_REAL: return key->allows_auto ? "a number or auto" : "a number";
    case CONFIG_PATH: return "a path";
    case CONFIG_WORDS: return "a list of words";
    case CONFIG_RULES: return "a list of rules";
    }
    return "a value";
}

void config_append_number(struct text *out, double value)
{
    struct json_writer number = {.out = out};
    json_write_real(&number, value);
}

static void append_range(struct text *out, const struct config_key *key)
{
    if (key->allows_auto)
        text_append_string(out, "auto, or ");
    if (key->min_excluded)
        text_append_string(out, "more than ");
    config_append_number(out, key->min);
    if (key->max > 0) {
        text_append_string(out, " to ");
        config_append_number(out, key->max);
    } else if (!key->min_excluded) {
        text_append_string(out, " or more");
    }
}

void config_append_allowed(struct text *out, const struct config_key *key)
{
    switch (key->type) {
    case CONFIG_BOOL: text_append_string(out, "true or false"); break;
    case CONFIG_SWITCH: text_append_string(out, "one of auto, true, false"); break;
    case CONFIG_CHOICE:
        text_append_string(out, "one of ");
        for (size_t i = 0; i < key->name_count; i++)
            text_printf(out, "%s%s", i ? ", " : "", key->names[i]);
        break;
    case CONFIG_INT:
    case CONFIG_REAL: append_range(out, key); break;
    case CONFIG_PATH:
        text_append_string(out, "a path that begins with / or ~/");
        if (key->allows_empty)
            text_append_string(out, ", or empty");
        break;
    case CONFIG_ACCESS: text_append_string(out, "one of owner, group:NAME, everyone"); break;
    case CONFIG_WORDS: text_append_string(out, "a list of words"); break;
    case CONFIG_RULES:
        text_append_string(
            out, "a list of rules, each with job_id and one of workspace, env, cgroup, command");
        break;
    }
}

double config_number_limit(const struct config_key *key)
{
    if (key->unit_seconds > 0)
        return CONFIG_TIME_MAX_YEARS * 365 * DAY / key->unit_seconds;
    return CONFIG_NUMBER_MAX;
}

void config_append_limit(struct text *out, const struct config_key *key)
{
    if (key->unit_seconds > 0)
        text_printf(out, "%d years", CONFIG_TIME_MAX_YEARS);
    else
        config_append_number(out, CONFIG_NUMBER_MAX);
}
