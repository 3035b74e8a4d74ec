#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/suggest.h"
#include "config/config-schema.h"
#include "config/config.h"

static struct config *load_fine(const char *yaml)
{
    _cleanup_config_errors_ struct config_errors errors = {0};
    struct config *config = NULL;

    int r = config_load_bytes("sonde.yaml", yaml, strlen(yaml), &config, &errors);
    if (r < 0)
        fail_msg("%s", errors.count ? errors.lines[0] : strerror(-r));
    return config;
}

/* The value of one key in a file, as `profiler: {scope: VALUE}`. */
static void value_yaml(const char *path, const char *value, char *into, size_t size)
{
    size_t sections = config_section_depth(path);
    FILE *out = fmemopen(into, size, "we");

    for (; *path; path++)
        fputs(*path == '.' ? ": {" : (char[]){*path, '\0'}, out);
    fprintf(out, ": %s", value);
    for (; sections; sections--)
        fputc('}', out);
    fclose(out);
}

static void check_value(const char *path, const char *value, bool fine)
{
    _cleanup_config_errors_ struct config_errors errors = {0};
    _cleanup_config_ struct config *config = NULL;
    char yaml[1024];

    value_yaml(path, value, yaml, sizeof(yaml));
    int r = config_load_bytes("sonde.yaml", yaml, strlen(yaml), &config, &errors);
    if (fine && r < 0)
        fail_msg("%s", errors.lines[0]);
    if (!fine && r == 0)
        fail_msg("%s: '%s' was taken", path, value);
}

/* The output of config_show() without the origins, which differ between a file and its copy. */
static char *show_values(const struct config *config)
{
    _cleanup_text_ struct text all = {0};
    struct text values = {0};

    config_show(config, &all);
    for (char *line = strtok(all.bytes, "\n"); line; line = strtok(NULL, "\n")) {
        char *origin = strstr(line, "  # ");
        text_append(&values, line, origin ? (size_t)(origin - line) : strlen(line));
        text_append_char(&values, '\n');
    }
    assert_int_equal(text_error(&values), 0);
    return values.bytes;
}

static void test_defaults(void **state)
{
    _cleanup_config_ struct config *config = config_new();
    (void)state;

    assert_non_null(config);
    assert_true(config->enabled);
    assert_float_equal(config->interval_seconds, 5, 0);
    assert_int_equal(config->scope, SCOPE_JOBS);
    assert_int_equal(config->collector, COLLECTOR_CHOICE_AUTO);
    assert_false(config->strace_enabled);
    assert_true(config->strace_full_on_demand);
    assert_int_equal(config->syscalls, SYSCALLS_CHOICE_AUTO);
    assert_int_equal(config->gpu_enabled, SWITCH_AUTO);
    assert_null(config->storage_path);
    assert_null(config->jsonl_path);
    assert_int_equal(config->jsonl_max_bytes, 52428800);
    assert_int_equal(config->redact.count, 15);
    assert_string_equal(config->redact.items[0], "token");
    assert_string_equal(config->redact.items[14], "pat");
    assert_null(config->file);
}

static void test_defaults_of_sections(void **state)
{
    _cleanup_config_ struct config *config = config_new();
    (void)state;

    assert_float_equal(config->retention.full_resolution_hours, 24, 0);
    assert_float_equal(config->retention.downsampled_days, 7, 0);
    assert_float_equal(config->retention.events_days, 30, 0);
    assert_float_equal(config->retention.jobs_days, 365, 0);
    assert_float_equal(config->anomaly.memory_spike_threshold, 1.5, 0);
    assert_float_equal(config->anomaly.memory_spike_window_seconds, 30, 0);
    assert_float_equal(config->anomaly.memory_spike_min_mb, 100, 0);
    assert_float_equal(config->anomaly.runaway_cpu_threshold, 90, 0);
    assert_float_equal(config->anomaly.runaway_duration_seconds, 60, 0);
    assert_int_equal(config->anomaly.fd_exhaustion_threshold, 1000);
    assert_float_equal(config->anomaly.fd_exhaustion_ratio, 0.8, 1e-12);
    assert_float_equal(config->anomaly.memory_pressure_fraction, 0.1, 1e-12);
    assert_float_equal(config->correlation.interval_minutes, 30, 0);
    assert_int_equal(config->correlation.min_sample_size, 5);
    assert_false(real_is_known(config->limits.max_memory_mb));
    assert_false(int_is_known(config->limits.max_processes));
    assert_int_equal(config->daemon_access.kind, ACCESS_OWNER);
    for (size_t i = 0; i < config_key_count; i++)
        assert_int_equal(config->origin_lines[i], 0);
}

static void test_default_rules(void **state)
{
    _cleanup_config_ struct config *config = config_new();
    const struct job_rule *rules = config->jobs.rules.items;
    (void)state;

    assert_int_equal(config->jobs.rules.count, 2);
    assert_string_equal(rules[0].job_id, "slurm-{SLURM_JOB_ID}");
    assert_int_equal(rules[0].kind, JOB_RULE_ENV);
    assert_int_equal(rules[0].names.count, 1);
    assert_string_equal(rules[0].names.items[0], "SLURM_JOB_ID");
    assert_string_equal(rules[1].job_id, "gha-{GITHUB_RUN_ID}-{GITHUB_JOB}");
    assert_int_equal(rules[1].names.count, 2);
    assert_string_equal(rules[1].names.items[1], "GITHUB_JOB");
}

static void test_ranges(void **state)
{
    static const struct {
        const char *path, *lowest, *below, *highest, *above;
    } cases[] = {
        {"profiler.interval_seconds", "0.01", "0.0099", "3153600000", "3153600001"},
        {"profiler.jsonl_max_bytes", "1048576", "1048575", "1000000000000", "1000000000001"},
        {"profiler.retention.full_resolution_hours", "1", "0.99", "876000", "876001"},
        {"profiler.retention.downsampled_days", "1", "0.99", "36500", "36501"},
        {"profiler.retention.events_days", "1", "0", "36500", "36501"},
        {"profiler.retention.jobs_days", "1", "0", "36500", "36501"},
        {"profiler.anomaly.memory_spike_threshold", "1.0001", "1", "1e12", "1.1e12"},
        {"profiler.anomaly.memory_spike_window_seconds", "0.001", "0", "3153600000", "1e300"},
        {"profiler.anomaly.memory_spike_min_mb", "0", "-0.1", "1e12", "1.1e12"},
        {"profiler.anomaly.runaway_cpu_threshold", "50", "49.9", "100", "100.1"},
        {"profiler.anomaly.runaway_duration_seconds", "0.001", "-0", "3153600000", "1e10"},
        {"profiler.anomaly.fd_exhaustion_threshold", "1", "0", "1000000000000", "1000000000001"},
        {"profiler.anomaly.fd_exhaustion_ratio", "0", "-0.1", "1", "1.01"},
        {"profiler.anomaly.memory_pressure_fraction", "0.0", "-1", "1.0", "1.01"},
        {"profiler.anomaly.clear_seconds", "0", "-0.1", "3153600000", "3153600001"},
        {"daemon.stall_seconds", "1", "0.9", "3153600000", "3153600001"},
        {"jobs.linger_seconds", "0", "-0.1", "3153600000", "3153600001"},
        {"profiler.correlation.interval_minutes", "5", "4.9", "52560000", "52560001"},
        {"profiler.correlation.min_sample_size", "2", "1", "1000000000000", "9223372036854775808"},
        {"limits.max_memory_mb", "512", "511.9", "auto", "1e13"},
        {"limits.max_processes", "5", "4", "auto", "-9223372036854775809"},
    };
    (void)state;

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        check_value(cases[i].path, cases[i].lowest, true);
        check_value(cases[i].path, cases[i].below, false);
        check_value(cases[i].path, cases[i].highest, true);
        check_value(cases[i].path, cases[i].above, false);
    }
}

static void test_not_numbers(void **state)
{
    static const char *const words[] = {"10s", "010",  ".5",    "5.",   "nan", ".nan",
                                        "inf", ".inf", "1e999", "0x10", "+5",  "1_000",
                                        "'5'", "1e",   "--5",   "5 5",  "auto"};
    (void)state;

    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        check_value("profiler.interval_seconds", words[i], false);
    check_value("profiler.jsonl_max_bytes", "2e6", false);
    check_value("profiler.jsonl_max_bytes", "2000000.0", false);
    check_value("limits.max_memory_mb", "'auto'", true);
    check_value("limits.max_memory_mb", "'600'", false);
    check_value("limits.max_memory_mb", "Auto", false);
}

static void test_enumerations(void **state)
{
    _cleanup_config_ struct config *config = load_fine("profiler:\n"
                                                       "  enabled: false\n"
                                                       "  scope: all\n"
                                                       "  collector: 'procfs'\n"
                                                       "  syscalls: strace\n"
                                                       "  gpu_enabled: false\n"
                                                       "  redact: [api, \"pass word\", 7]\n"
                                                       "daemon: {access: 'group:adm'}\n");
    (void)state;

    assert_false(config->enabled);
    assert_int_equal(config->scope, SCOPE_ALL);
    assert_int_equal(config->collector, COLLECTOR_CHOICE_PROCFS);
    assert_int_equal(config->syscalls, SYSCALLS_CHOICE_STRACE);
    assert_int_equal(config->gpu_enabled, SWITCH_OFF);
    assert_int_equal(config->redact.count, 3);
    assert_string_equal(config->redact.items[1], "pass word");
    assert_string_equal(config->redact.items[2], "7");
    assert_int_equal(config->daemon_access.kind, ACCESS_GROUP);
    assert_string_equal(config->daemon_access.group, "adm");
    check_value("profiler.gpu_enabled", "true", true);
    check_value("profiler.redact", "[]", true);
    check_value("daemon.access", "everyone", true);
    check_value("daemon.access", "'group:a b'", false);
}

static void test_empty(void **state)
{
    static const char *const fine[] = {"",
                                       "\n",
                                       "# nothing\n",
                                       "---\n",
                                       "profiler:\n",
                                       "{}",
                                       "~",
                                       "profiler: {retention: , anomaly: ~}\nlimits: null\n"};
    (void)state;

    for (size_t i = 0; i < ARRAY_SIZE(fine); i++) {
        _cleanup_config_ struct config *config = load_fine(fine[i]);
        assert_float_equal(config->interval_seconds, 5, 0);
    }
}

static void test_paths_in_values(void **state)
{
    (void)state;
    setenv("HOME", "/home/ann", 1);
    _cleanup_config_ struct config *config =
        load_fine("profiler: {storage_path: ~/db, jsonl_path: }");
    assert_string_equal(config->storage_path, "/home/ann/db");
    assert_string_equal(config->jsonl_path, "");
    _cleanup_config_ struct config *quoted =
        load_fine("profiler: {storage_path: /var/x.db, jsonl_path: \"\"}");
    assert_string_equal(quoted->storage_path, "/var/x.db");
    assert_string_equal(quoted->jsonl_path, "");
}

static void test_rules(void **state)
{
    _cleanup_config_ struct config *config =
        load_fine("jobs:\n"
                  "  rules:\n"
                  "    - job_id: build\n"
                  "      workspace: /srv/build\n"
                  "    - job_id: 'pod-{1}'\n"
                  "      cgroup: 'pod([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{12})'\n"
                  "    - {command: 'train (.*)', job_id: 'train-{1}'}\n");
    const struct job_rule *rules = config->jobs.rules.items;
    (void)state;

    assert_int_equal(config->jobs.rules.count, 3);
    assert_int_equal(rules[0].kind, JOB_RULE_WORKSPACE);
    assert_string_equal(rules[0].pattern, "/srv/build");
    assert_int_equal(rules[1].kind, JOB_RULE_CGROUP);
    assert_string_equal(rules[1].job_id, "pod-{1}");
    assert_int_equal(rules[2].kind, JOB_RULE_COMMAND);
    assert_string_equal(rules[2].pattern, "train (.*)");
    assert_int_equal(config_origin_line(config, "jobs.rules"), 2);

    _cleanup_config_ struct config *none = load_fine("jobs: {rules: []}");
    assert_int_equal(none->jobs.rules.count, 0);
}

static const char *lookup_name(void *data, const char *name, size_t length)
{
    (void)data;
    return length == 4 && memcmp(name, "NAME", 4) == 0 ? "v" : NULL;
}

static void test_rule_expand(void **state)
{
    _cleanup_text_ struct text out = {0};
    (void)state;

    assert_int_equal(job_rule_expand("a-{NAME}{NAME}.", lookup_name, NULL, &out), 0);
    assert_string_equal(out.bytes, "a-vv.");
    assert_int_equal(job_rule_expand("{X}", lookup_name, NULL, &out), -ENOENT);
    assert_int_equal(job_rule_expand("{}", lookup_name, NULL, &out), -EINVAL);
    assert_int_equal(job_rule_expand("a}", lookup_name, NULL, &out), -EINVAL);
    assert_int_equal(job_rule_expand("{NAME", lookup_name, NULL, &out), -EINVAL);
    assert_int_equal(job_rule_expand("{{NAME}}", lookup_name, NULL, &out), -EINVAL);
}

static void test_show(void **state)
{
    _cleanup_config_ struct config *config =
        load_fine("profiler:\n  interval_seconds: 0.25\n  redact:\n    - a\n");
    _cleanup_text_ struct text shown = {0}, json = {0};
    (void)state;

    assert_int_equal(config_origin_line(config, "profiler.interval_seconds"), 2);
    assert_int_equal(config_origin_line(config, "profiler.redact"), 3);
    assert_int_equal(config_origin_line(config, "profiler.scope"), 0);
    config_show(config, &shown);
    assert_non_null(strstr(shown.bytes, "profiler:\n  enabled: true  # default\n"
                                        "  interval_seconds: 0.25  # sonde.yaml:2\n"));
    assert_non_null(strstr(shown.bytes, "\n  redact: [a]  # sonde.yaml:3\n  retention:\n"));
    assert_non_null(strstr(shown.bytes, "\n  # storage_path: "));
    config_show_json(config, &json);
    assert_non_null(strstr(json.bytes, "{\"profiler\":{\"enabled\":{\"value\":true,\"origin\":"
                                       "\"default\"},\"interval_seconds\":{\"value\":0.25,"
                                       "\"origin\":\"sonde.yaml:2\"}"));
    assert_non_null(strstr(json.bytes, "\"storage_path\":{\"value\":null,\"origin\":\"default\"}"));
    assert_non_null(strstr(json.bytes, "\"limits\":{\"max_memory_mb\":{\"value\":\"auto\""));
}

static void test_round_trip(void **state)
{
    _cleanup_config_ struct config *config = load_fine(
        "profiler: {enabled: false, interval_seconds: 0.1, scope: all, collector: bpf,\n"
        "  strace_enabled: true, strace_full_on_demand: false, syscalls: off, gpu_enabled: true,\n"
        "  storage_path: '/a b/\"c\"#d.db', jsonl_path: '', jsonl_max_bytes: 1234567,\n"
        "  redact: [yes, '7', 'a, b', '\xC3\xA4', '- x', 'it''s', '\\'],\n"
        "  retention: {full_resolution_hours: 1.5, downsampled_days: 2, events_days: 3,\n"
        "    jobs_days: 4}, correlation: {interval_minutes: 7, min_sample_size: 9},\n"
        "  anomaly: {memory_spike_threshold: 1.0000000000000002, memory_spike_min_mb: 1e-7}}\n"
        "limits: {max_memory_mb: 600.5, max_processes: 77}\n"
        "daemon: {access: 'group:adm'}\n"
        "jobs: {rules: [{job_id: '{1}: x', cgroup: '^/a\\.b(c|[\"#])$'},\n"
        "  {job_id: w, workspace: /srv/w}, {job_id: '{A}', env: [A, B]}]}\n");
    _cleanup_config_ struct config *copy = NULL;
    _cleanup_config_errors_ struct config_errors errors = {0};
    _cleanup_text_ struct text shown = {0};
    (void)state;

    config_show(config, &shown);
    int r = config_load_bytes("copy.yaml", shown.bytes, shown.length, &copy, &errors);
    if (r < 0)
        fail_msg("%s", errors.lines[0]);
    _cleanup_free_ char *first = show_values(config), *second = show_values(copy);
    assert_string_equal(first, second);
    assert_float_equal(copy->anomaly.memory_spike_threshold, 1.0000000000000002, 0);
    assert_string_equal(copy->storage_path, "/a b/\"c\"#d.db");
    assert_string_equal(copy->jobs.rules.items[0].pattern, "^/a\\.b(c|[\"#])$");
}

static void test_round_trip_of_defaults(void **state)
{
    _cleanup_config_ struct config *config = config_new();
    _cleanup_text_ struct text shown = {0}, resolved = {0};
    (void)state;

    config_show(config, &shown);
    _cleanup_config_ struct config *copy = load_fine(shown.bytes);
    _cleanup_free_ char *first = show_values(config), *second = show_values(copy);
    assert_string_equal(first, second);
    assert_null(copy->storage_path);

    assert_int_equal(config_resolve_paths(config, "/state"), 0);
    assert_string_equal(config->storage_path, "/state/monitor.db");
    assert_string_equal(config->jsonl_path, "/state/monitor.jsonl");
    config_show(config, &resolved);
    assert_non_null(strstr(resolved.bytes, "  storage_path: /state/monitor.db  # default\n"));
}

/* ---- reload ---- */

/* Values that differ from the defaults, one for each key. */
static const char all_changed[] = "profiler:\n"
                                  "  enabled: false\n"
                                  "  interval_seconds: 1\n"
                                  "  scope: all\n"
                                  "  collector: procfs\n"
                                  "  strace_enabled: true\n"
                                  "  strace_full_on_demand: false\n"
                                  "  syscalls: off\n"
                                  "  gpu_enabled: false\n"
                                  "  storage_path: /other/monitor.db\n"
                                  "  jsonl_path: /other/monitor.jsonl\n"
                                  "  jsonl_max_bytes: 2097152\n"
                                  "  redact: [pin]\n"
                                  "  retention:\n"
                                  "    full_resolution_hours: 2\n"
                                  "    downsampled_days: 2\n"
                                  "    events_days: 2\n"
                                  "    jobs_days: 2\n"
                                  "  anomaly:\n"
                                  "    memory_spike_threshold: 2\n"
                                  "    memory_spike_window_seconds: 2\n"
                                  "    memory_spike_min_mb: 2\n"
                                  "    runaway_cpu_threshold: 60\n"
                                  "    runaway_duration_seconds: 2\n"
                                  "    fd_exhaustion_threshold: 2\n"
                                  "    fd_exhaustion_ratio: 0.5\n"
                                  "    memory_pressure_fraction: 0.5\n"
                                  "    clear_seconds: 2\n"
                                  "  correlation:\n"
                                  "    interval_minutes: 5\n"
                                  "    min_sample_size: 2\n"
                                  "limits:\n"
                                  "  max_memory_mb: 1024\n"
                                  "  max_processes: 100\n"
                                  "daemon:\n"
                                  "  access: everyone\n"
                                  "  stall_seconds: 2\n"
                                  "jobs:\n"
                                  "  linger_seconds: 2\n"
                                  "  rules: []\n";

/* What one comparison of configurations found. */
struct found {
    bool changed[CONFIG_KEYS_MAX];
    size_t count;
};

static void note_change(void *context, const struct config_change *change)
{
    struct found *found = context;

    assert_string_not_equal(change->from, change->to);
    for (size_t i = 0; i < config_key_count; i++)
        if (strcmp(config_keys[i].path, change->key) == 0) {
            assert_int_equal(change->needs_restart, config_keys[i].needs_restart);
            found->changed[i] = true;
        }
    found->count++;
}

/* A reload keeps the values of exactly those keys that the table marks. */
static void test_keys_that_need_a_restart(void **state)
{
    _cleanup_config_ struct config *running = config_new(), *reloaded = load_fine(all_changed);
    struct found before = {.count = 0}, kept = {.count = 0}, applied = {.count = 0};
    (void)state;

    assert_int_equal(config_resolve_paths(running, "/state"), 0);
    assert_int_equal(config_compare(running, reloaded, note_change, &before), 0);
    assert_int_equal(before.count, config_key_count);
    assert_int_equal(config_keep_restart_values(running, reloaded), 0);
    assert_int_equal(config_compare(running, reloaded, note_change, &applied), 0);
    for (size_t i = 0; i < config_key_count; i++)
        if (applied.changed[i] == config_keys[i].needs_restart)
            fail_msg("%s: the column `needs_restart` is wrong", config_keys[i].path);

    /* The other way round: a changed value is copied, too. */
    _cleanup_config_ struct config *next = config_new();
    _cleanup_config_ struct config *changed = load_fine(all_changed);
    assert_int_equal(config_resolve_paths(next, "/state"), 0);
    assert_int_equal(config_keep_restart_values(changed, next), 0);
    assert_int_equal(config_compare(changed, next, note_change, &kept), 0);
    assert_int_equal(kept.count, applied.count);
    assert_ptr_not_equal(next->storage_path, changed->storage_path);
}

static void test_paths_without_a_value_are_kept(void **state)
{
    _cleanup_config_ struct config *running = config_new(), *reloaded = load_fine(all_changed);
    (void)state;

    assert_int_equal(config_keep_restart_values(running, reloaded), 0);
    assert_null(reloaded->storage_path);
    assert_null(reloaded->jsonl_path);
}

static void test_markdown(void **state)
{
    _cleanup_text_ struct text table = {0};
    (void)state;

    config_schema_markdown(&table);
    assert_non_null(strstr(table.bytes, "| `profiler.interval_seconds` | `5` | 0.01 or more | "));
    assert_non_null(strstr(table.bytes, "| `profiler.storage_path` | `monitor.db` in the state "
                                        "directory | a path that begins with / or ~/ | restart "
                                        "| "));
    for (size_t i = 0; i < config_key_count; i++)
        assert_non_null(strstr(table.bytes, config_keys[i].path));
}

static void test_restart_keys(void **state)
{
    _cleanup_text_ struct text line = {0};
    (void)state;

    config_restart_keys_page(&line);
    assert_int_equal(strncmp(line.bytes, "*profiler.enabled*, *", 21), 0);
    for (size_t i = 0; i < config_key_count; i++)
        assert_int_equal(strstr(line.bytes, config_keys[i].path) != NULL,
                         config_keys[i].needs_restart);
}

static void test_suggestions(void **state)
{
    static const char *const names[] = {"retention", "scope", "strace_enabled", "all"};
    static const char *const cases[][2] = {
        {"retentoin", "retention"},
        {"scop", "scope"},
        {"skope", "scope"},
        {"strace", "strace_enabled"},
        {"al", "all"},
        {"xyz", NULL},
        {"", NULL},
        {"something", NULL},
        {"str", NULL},
    };
    (void)state;

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct suggestion nearest = {0};
        for (size_t j = 0; j < ARRAY_SIZE(names); j++)
            suggestion_consider(&nearest, cases[i][0], strlen(cases[i][0]), names[j],
                                strlen(names[j]));
        if (cases[i][1])
            assert_string_equal(nearest.name, cases[i][1]);
        else
            assert_null(nearest.name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_defaults_of_sections),
        cmocka_unit_test(test_default_rules),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_not_numbers),
        cmocka_unit_test(test_enumerations),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_paths_in_values),
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_rule_expand),
        cmocka_unit_test(test_show),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_round_trip_of_defaults),
        cmocka_unit_test(test_keys_that_need_a_restart),
        cmocka_unit_test(test_paths_without_a_value_are_kept),
        cmocka_unit_test(test_markdown),
        cmocka_unit_test(test_restart_keys),
        cmocka_unit_test(test_suggestions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
