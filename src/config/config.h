/* The configuration: one plain struct, filled from the defaults of the schema table
 * (config-schema.c) and then from a YAML file.
 *
 * A file with an error gives no configuration, only a list of errors, each with file, line and
 * column. The configuration's own arena owns all text. A loaded configuration is immutable and may
 * be shared between threads. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/text.h"
#include "config/paths.h"
#include "model/field.h"
#include "model/job-rule.h"

/* Limits of a file. A hand-written configuration has a few kilobytes. */
#define CONFIG_FILE_MAX_BYTES (1024 * 1024)
#define CONFIG_NODES_MAX      10000 /* total number of keys, values and lists */
#define CONFIG_DEPTH_MAX      16    /* the schema needs 5 */
#define CONFIG_ERRORS_MAX     20
#define CONFIG_WORDS_MAX      256 /* items of `redact` and of a rule's `env` */
#define CONFIG_WORD_MAX_BYTES 128
#define CONFIG_RULES_MAX      256
/* Upper limits of numbers, so that arithmetic does not overflow: times as nanoseconds in 64 bits,
 * MiB as bytes in 64 bits. */
#define CONFIG_TIME_MAX_YEARS 100
#define CONFIG_NUMBER_MAX     1e12
/* What `auto` means for the limits of jobs: this part of what the machine allows. */
#define LIMITS_AUTO_PCT 80

enum scope {
    SCOPE_JOBS,
    SCOPE_ALL,
};

enum collector_choice {
    COLLECTOR_CHOICE_AUTO,
    COLLECTOR_CHOICE_BPF,
    COLLECTOR_CHOICE_PROCFS,
};

enum syscalls_choice {
    SYSCALLS_CHOICE_AUTO,
    SYSCALLS_CHOICE_BPF,
    SYSCALLS_CHOICE_STRACE,
    SYSCALLS_CHOICE_OFF,
};

enum auto_switch {
    SWITCH_AUTO,
    SWITCH_ON,
    SWITCH_OFF,
};

enum access_kind {
    ACCESS_OWNER,
    ACCESS_GROUP,
    ACCESS_EVERYONE,
};

struct retention_config {
    double full_resolution_hours;
    double downsampled_days;
    double events_days;
    double jobs_days;
};

struct anomaly_config {
    double memory_spike_threshold;
    double memory_spike_window_seconds;
    double memory_spike_min_mb;
    double runaway_cpu_threshold;
    double runaway_duration_seconds;
    int64_t fd_exhaustion_threshold;
    double fd_exhaustion_ratio;
    double memory_pressure_fraction;
    double clear_seconds;
};

struct correlation_config {
    double interval_minutes;
    int64_t min_sample_size;
};

struct limits_config {
    double max_memory_mb;  /* REAL_UNKNOWN: auto */
    int64_t max_processes; /* INT_UNKNOWN: auto */
};

struct access_config {
    enum access_kind kind;
    const char *group; /* for ACCESS_GROUP */
};

struct config {
    bool enabled;
    double interval_seconds;
    enum scope scope;
    enum collector_choice collector;
    bool strace_enabled;
    bool strace_full_on_demand;
    enum syscalls_choice syscalls;
    enum auto_switch gpu_enabled;
    const char *storage_path; /* NULL before config_resolve_paths(), which derives it from the state
                                 directory */
    const char *jsonl_path;   /* the same; empty: no log */
    int64_t jsonl_max_bytes;
    struct text_list redact;
    struct retention_config retention;
    struct anomaly_config anomaly;
    struct correlation_config correlation;
    struct limits_config limits;
    struct access_config daemon_access;
    double daemon_stall_seconds;
    struct {
        double linger_seconds;
        struct job_rule_list rules;
    } jobs;

    const char *file;       /* path of the file; NULL: built-in defaults */
    unsigned *origin_lines; /* by index into config_keys; 0: default */
    struct arena arena;
};

/* Returns whether `strace -c` is attached to new processes of jobs. */
static inline bool config_traces_members(const struct config *config)
{
    return config->strace_enabled || config->syscalls == SYSCALLS_CHOICE_STRACE;
}

/* Errors, one line of text each: `sonde.yaml:7:23: profiler.scope: …`. Zero-initialised means
 * empty. */
struct config_errors {
    const char *lines[CONFIG_ERRORS_MAX];
    bool has_line[CONFIG_ERRORS_MAX]; /* whether the error begins with a position, FILE:LINE */
    size_t count;
    size_t left_out; /* number of errors beyond CONFIG_ERRORS_MAX */
    int error;       /* 0, or -ENOMEM: some errors could not be stored */
    struct arena arena;
};

void config_errors_done(struct config_errors *errors);
/* Adds an error for a value that is well formed but not valid on this machine. `problem` contains
 * the value, escaped. */
void config_errors_add_key(struct config_errors *errors, const struct config *config,
                           const char *key, const char *problem);

/* Returns the built-in defaults, or NULL if out of memory. */
struct config *config_new(void);
void config_free(struct config *config);
DEFINE_CLEANUP(struct config *, config_free);

#define _cleanup_config_        _cleanup_(config_freep)
#define _cleanup_config_errors_ _cleanup_(config_errors_done)

/* Reads `path`. Returns 0, or a negative errno with lines in `errors` (-ENOMEM may come without
 * lines). `~` in paths is $HOME. */
int config_load(const char *path, struct config **ret, struct config_errors *errors);
/* The same without blocking, for a reload. A pipe is an error, because it can be read only once and
 * a second read could block. */
int config_load_again(const char *path, struct config **ret, struct config_errors *errors);

/* The same from memory; errors and origins show `name` as the file. */
int config_load_bytes(const char *name, const char *bytes, size_t length, struct config **ret,
                      struct config_errors *errors);

/* Finds the configuration file: `option` (--config, or NULL), $SONDE_CONFIG,
 * $XDG_CONFIG_HOME/sonde/sonde.yaml (~/.config without that variable), /etc/sonde/sonde.yaml. The
 * first two must exist. The caller frees *ret_path, which is NULL if there is no file. */
int config_find_file(const char *option, environment_getter *get, char **ret_path,
                     struct config_errors *errors);

/* Sets the paths that the file does not name to monitor.db and monitor.jsonl in `state_dir`.
 * Returns 0 or -ENOMEM. */
int config_resolve_paths(struct config *config, const char *state_dir);

/* Returns the line of the file that set a key (such as `profiler.scope`), 0 if it has its default.
 */
unsigned config_origin_line(const struct config *config, const char *key);

/* Append the configuration in force with the origin of each value, as YAML that can be loaded
 * again, or as JSON. `out` records errors. */
void config_show(const struct config *config, struct text *out);
void config_show_json(const struct config *config, struct text *out);

struct config_change {
    const char *key;
    const char *from, *to; /* the values as YAML */
    bool needs_restart;    /* see struct config_key */
};

/* Calls the function for every key whose value differs; the texts of a change are valid during the
 * call. Returns 0 or -ENOMEM. */
typedef void (*config_change_fn)(void *context, const struct config_change *change);
int config_compare(const struct config *from, const struct config *to, config_change_fn on_change,
                   void *context);

/* For a reload, before `to` is shared: copies the values of keys that need a restart from `from` to
 * `to`. Returns 0 or -ENOMEM; after an error `to` may only be freed. */
int config_keep_restart_values(const struct config *from, struct config *to);

/* Appends the table of keys for docs/CONFIGURATION.md. */
void config_schema_markdown(struct text *out);
/* Appends the keys that need a restart as a line of a man page, in bold, for sonde-daemon(1). */
void config_restart_keys_page(struct text *out);
