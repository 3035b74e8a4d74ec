#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "config/config.h"

static void expect_errors(const char *yaml, size_t length, const char *const *lines, size_t count)
{
    _cleanup_config_errors_ struct config_errors errors = {0};
    struct config *config = NULL;

    assert_int_equal(config_load_bytes("sonde.yaml", yaml, length, &config, &errors), -EINVAL);
    assert_null(config);
    for (size_t i = 0; i < errors.count && i < count; i++)
        assert_string_equal(errors.lines[i], lines[i]);
    assert_int_equal(errors.count, count);
}

static void expect_error(const char *yaml, const char *line)
{
    expect_errors(yaml, strlen(yaml), &line, 1);
}

static void test_error_values(void **state)
{
    (void)state;
    expect_error("profiler:\n  # the interval\n  interval_seconds:   fast\n",
                 "sonde.yaml:3:23: profiler.interval_seconds: 'fast' is not a number "
                 "(allowed: 0.01 or more)");
    expect_error("profiler:\n  interval_seconds: 0.001\n",
                 "sonde.yaml:2:21: profiler.interval_seconds: '0.001' is out of range "
                 "(allowed: 0.01 or more)");
    expect_error("profiler:\n  interval_seconds: '5'\n",
                 "sonde.yaml:2:21: profiler.interval_seconds: '5' is quoted, so it is text and not "
                 "a number (allowed: 0.01 or more)");
    expect_error("profiler:\n  interval_seconds: 1e300\n",
                 "sonde.yaml:2:21: profiler.interval_seconds: '1e300' is too large; the limit is "
                 "100 years (allowed: 0.01 or more)");
    expect_error("profiler: {jsonl_max_bytes: 1.5}",
                 "sonde.yaml:1:29: profiler.jsonl_max_bytes: '1.5' is not a whole number "
                 "(allowed: 1048576 or more)");
    expect_error("profiler: {anomaly: {memory_spike_threshold: 1}}",
                 "sonde.yaml:1:46: profiler.anomaly.memory_spike_threshold: '1' is out of range "
                 "(allowed: more than 1)");
    expect_error("profiler: {anomaly: {runaway_cpu_threshold: 101}}",
                 "sonde.yaml:1:45: profiler.anomaly.runaway_cpu_threshold: '101' is out of range "
                 "(allowed: 50 to 100)");
    expect_error("limits: {max_processes: many}",
                 "sonde.yaml:1:25: limits.max_processes: 'many' is not a whole number or auto "
                 "(allowed: auto, or 5 or more)");
    expect_error("profiler: {enabled: yes}",
                 "sonde.yaml:1:21: profiler.enabled: 'yes' is not a boolean; did you mean 'true'? "
                 "(allowed: true or false)");
    expect_error("profiler: {gpu_enabled: Off}",
                 "sonde.yaml:1:25: profiler.gpu_enabled: 'Off' is not one of the allowed words; "
                 "did you mean 'false'? (allowed: one of auto, true, false)");
    expect_error("profiler: {scope: job}",
                 "sonde.yaml:1:19: profiler.scope: 'job' is not one of the allowed words; did you "
                 "mean 'jobs'? (allowed: one of jobs, all)");
    expect_error("daemon: {access: all}",
                 "sonde.yaml:1:18: daemon.access: 'all' is not one of the allowed words "
                 "(allowed: one of owner, group:NAME, everyone)");
    expect_error("daemon: {access: 'group:'}",
                 "sonde.yaml:1:18: daemon.access: 'group:' lacks the name of a group "
                 "(allowed: one of owner, group:NAME, everyone)");
}

static void test_error_types(void **state)
{
    (void)state;
    expect_error("profiler:\n  interval_seconds:\n    a: 1\n",
                 "sonde.yaml:3:5: profiler.interval_seconds: a mapping is not a number "
                 "(allowed: 0.01 or more)");
    expect_error("profiler: {enabled: [true]}",
                 "sonde.yaml:1:21: profiler.enabled: a list is not a boolean "
                 "(allowed: true or false)");
    expect_error("profiler: {redact: token}",
                 "sonde.yaml:1:20: profiler.redact: 'token' is not a list of words "
                 "(allowed: a list of words)");
    expect_error("profiler: {redact: [a, {b: c}]}",
                 "sonde.yaml:1:24: profiler.redact: a mapping is not a word");
    expect_error("profiler: {redact: ['']}", "sonde.yaml:1:21: profiler.redact: '' is empty");
    expect_error("profiler:\n  retention: 5\n",
                 "sonde.yaml:2:14: profiler.retention: '5' is not a section of keys");
    expect_error("- a\n", "sonde.yaml:1:1: a list is not a section of keys");
    expect_error("hello\n", "sonde.yaml:1:1: 'hello' is not a section of keys");
    expect_error("profiler:\n  scope:\n",
                 "sonde.yaml:2:9: profiler.scope: no value (allowed: one of jobs, all)");
    expect_error("profiler: {storage_path: ~}", "sonde.yaml:1:26: profiler.storage_path: no value "
                                                "(allowed: a path that begins with / or ~/)");
    expect_error("? [a]\n: b\n", "sonde.yaml:1:3: a list is not a key");
}

static void test_error_keys(void **state)
{
    (void)state;
    expect_error("profiler:\n  enabled: true\n  intervall: 5\n",
                 "sonde.yaml:3:3: profiler.intervall: unknown key; did you mean "
                 "'interval_seconds'?");
    expect_error("profiler: {retention: {event_days: 5}}",
                 "sonde.yaml:1:24: profiler.retention.event_days: unknown key; did you mean "
                 "'events_days'?");
    expect_error("profilers: {}",
                 "sonde.yaml:1:1: profilers: unknown key; did you mean 'profiler'?");
    expect_error("jobs_days: 5", "sonde.yaml:1:1: jobs_days: unknown key; did you mean "
                                 "'profiler.retention.jobs_days'?");
    expect_error("xyzzy: {a: [b]}", "sonde.yaml:1:1: xyzzy: unknown key");
    expect_error("\"\\e[2Jx\": 1", "sonde.yaml:1:1: \\x1b[2Jx: unknown key");
    expect_error("profiler:\n  scope: all\n  scope: jobs\n",
                 "sonde.yaml:3:3: profiler.scope: duplicate key; first on line 2");
    expect_error("profiler:\n  scope: all\nlimits: {}\nprofiler: {}\n",
                 "sonde.yaml:4:1: profiler: duplicate key; first on line 1");
}

static void test_error_yaml(void **state)
{
    (void)state;
    expect_error("profiler: &p\n  scope: all\n",
                 "sonde.yaml:1:11: profiler: anchors are not allowed");
    expect_error("profiler:\n  scope: *p\n",
                 "sonde.yaml:2:10: profiler.scope: aliases are not allowed");
    expect_error("profiler:\n  scope: !!str all\n",
                 "sonde.yaml:2:10: profiler.scope: tags are not allowed");
    expect_error("&a profiler: {}\n", "sonde.yaml:1:1: anchors are not allowed");
    expect_error("limits: {}\n---\ndaemon: {}\n", "sonde.yaml:2:1: more than one document");
    expect_error("profiler:\n\tscope: all\n",
                 "sonde.yaml:2:1: not valid YAML: a tab instead of spaces");
    expect_error("profiler:\n  scope: all\n oops\n",
                 "sonde.yaml:3:2: not valid YAML: did not find expected key while parsing a block "
                 "mapping");
    expect_error("profiler:\n  \xC3\xA4: \xFF\n",
                 "sonde.yaml:2:6: not valid YAML: invalid leading UTF-8 octet");
    expect_error("[[[[[[[[[[[[[[[[[[", "sonde.yaml:1:17: too many levels (limit: 16)");
}

static void test_error_text(void **state)
{
    static const char nul[] = "profiler: {storage_path: \"/a\\0b\"}";
    static const char *const line =
        "sonde.yaml:1:26: profiler.storage_path: '/a\\x00b' contains a control character "
        "(allowed: a path that begins with / or ~/)";
    (void)state;

    expect_errors(nul, sizeof(nul) - 1, &line, 1);
    expect_error("profiler: {interval_seconds: "
                 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx}",
                 "sonde.yaml:1:30: profiler.interval_seconds: "
                 "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…' is not a "
                 "number (allowed: 0.01 or more)");
    expect_error("profiler: {redact: [\"a\\u202Eb\"]}",
                 "sonde.yaml:1:21: profiler.redact: 'a\\u202eb' contains a control character");
}

/* Each is rejected, with a few lines that are safe for a terminal. */
static void test_hostile_files_are_rejected(void **state _unused_)
{
    static char deep[20000];
#define CASE(bytes)                                                                                \
    {                                                                                              \
        bytes, sizeof(bytes) - 1                                                                   \
    }
    const struct {
        const char *bytes;
        size_t length;
    } cases[] = {
        CASE("profiler: [unclosed\n"),
        CASE("profiler:\n  scope: \"\\e[31m\"\n"),
        CASE("profiler:\n  scope: \x1b[31m\n"),
        CASE("profiler:\n  scope: \xff\xfe\n"),
        CASE("- profiler\n"),
        CASE("profiler\n"),
        CASE("profiler:\n  scope: all\n  scope: jobs\n"),
        CASE("profiler:\n  scope: a\0b\n"),
        {deep, sizeof(deep)},
        CASE("a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\nprofiler: *c\n"),
        CASE("profiler:\n  interval_seconds: 1e999\n"),
        CASE("profiler:\n  interval_seconds: .nan\n"),
        CASE("profiler: {}\n---\nprofiler: {}\n"),
    };
#undef CASE

    memset(deep, '[', sizeof(deep));
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_config_errors_ struct config_errors errors = {0};
        struct config *config = NULL;
        size_t length = 0;
        if (config_load_bytes("x.yaml", cases[i].bytes, cases[i].length, &config, &errors) !=
            -EINVAL)
            fail_msg("case %zu is not refused", i);
        assert_null(config);
        assert_true(errors.count > 0);
        for (size_t k = 0; k < errors.count; k++) {
            assert_memory_equal(errors.lines[k], "x.yaml:", 7);
            for (const char *at = errors.lines[k]; *at; at++, length++)
                if ((unsigned char)*at < ' ' || *at == 127)
                    fail_msg("case %zu: a control character in '%s'", i, errors.lines[k]);
        }
        assert_true(length < 5000);
    }
}

static void test_all_errors_are_collected(void **state)
{
    static const char *const lines[] = {
        "sonde.yaml:2:12: profiler.enabled: 'on' is not a boolean; did you mean 'true'? "
        "(allowed: true or false)",
        "sonde.yaml:3:3: profiler.skope: unknown key; did you mean 'scope'?",
        "sonde.yaml:5:18: limits.max_memory_mb: '1' is out of range (allowed: auto, or 512 or "
        "more)",
    };
    static const char yaml[] =
        "profiler:\n  enabled: on\n  skope: all\nlimits:\n  max_memory_mb: 1\n";
    (void)state;

    expect_errors(yaml, sizeof(yaml) - 1, lines, ARRAY_SIZE(lines));
}

static void test_limits(void **state)
{
    _cleanup_config_errors_ struct config_errors errors = {0};
    _cleanup_text_ struct text yaml = {0};
    struct config *config = NULL;
    (void)state;

    for (unsigned i = 0; i < CONFIG_ERRORS_MAX + 7; i++)
        text_printf(&yaml, "unknown_%u: 1\n", i);
    assert_int_equal(config_load_bytes("s", yaml.bytes, yaml.length, &config, &errors), -EINVAL);
    assert_int_equal(errors.count, CONFIG_ERRORS_MAX);
    assert_int_equal(errors.left_out, 7);
    config_errors_done(&errors);

    text_reset(&yaml);
    text_append_repeated(&yaml, '\n', CONFIG_FILE_MAX_BYTES + 1);
    assert_int_equal(config_load_bytes("s", yaml.bytes, yaml.length, &config, &errors), -EFBIG);
    assert_string_equal(errors.lines[0], "s: larger than 1 MiB, the limit for a configuration");
    config_errors_done(&errors);

    text_reset(&yaml);
    for (unsigned i = 0; i < CONFIG_NODES_MAX; i++)
        text_append_string(&yaml, "-\n");
    assert_int_equal(config_load_bytes("s", yaml.bytes, yaml.length, &config, &errors), -EINVAL);
    assert_string_equal(errors.lines[0], "s:10000:2: too many keys and values (limit: 10000)");
}

static void test_error_paths(void **state)
{
    (void)state;
    expect_error("profiler: {storage_path: db}",
                 "sonde.yaml:1:26: profiler.storage_path: 'db' is not an absolute path "
                 "(allowed: a path that begins with / or ~/)");
    expect_error("profiler: {jsonl_path: /var/}",
                 "sonde.yaml:1:24: profiler.jsonl_path: '/var/' ends in '/', so it is not a file "
                 "(allowed: a path that begins with / or ~/, or empty)");
    expect_error("profiler: {storage_path: \"\"}",
                 "sonde.yaml:1:26: profiler.storage_path: '' is empty "
                 "(allowed: a path that begins with / or ~/)");
    expect_error("profiler:\n  storage_path: /var/x\n  jsonl_path: /var/x\n",
                 "sonde.yaml:3:15: profiler.jsonl_path: '/var/x' is also profiler.storage_path "
                 "(allowed: another file)");
    unsetenv("HOME");
    expect_error("profiler: {storage_path: ~/x}",
                 "sonde.yaml:1:26: profiler.storage_path: '~/x' needs $HOME, which is not set to "
                 "an absolute path (allowed: a path that begins with / or ~/)");
}

static void expect_rule_error(const char *rule, const char *line)
{
    char yaml[512], expected[512];

    snprintf(yaml, sizeof(yaml), "jobs: {rules: [%s]}", rule);
    snprintf(expected, sizeof(expected), "sonde.yaml:1:%s", line);
    expect_error(yaml, expected);
}

static void test_rule_errors(void **state)
{
    (void)state;
    expect_rule_error("x", "16: jobs.rules: 'x' is not a rule");
    expect_rule_error("{job_id: a}", "16: jobs.rules: the rule has no matcher "
                                     "(allowed: one of workspace, env, cgroup, command)");
    expect_rule_error("{env: [A]}", "16: jobs.rules: the rule has no job_id");
    expect_rule_error("{job_id: a, env: [A], cgroup: b}",
                      "38: jobs.rules.cgroup: the rule has 'env' already "
                      "(allowed: one of workspace, env, cgroup, command)");
    expect_rule_error("{jobid: a, env: [A]}",
                      "17: jobs.rules.jobid: unknown key; did you mean 'job_id'?");
    expect_rule_error("{job_id: a, job_id: b, env: [A]}",
                      "28: jobs.rules.job_id: duplicate key; first on line 1");
    expect_rule_error(
        "{job_id: 'a{B', env: [B]}",
        "25: jobs.rules.job_id: 'a{B' has an unmatched brace or an empty placeholder");
    expect_rule_error("{job_id: 'a{C}', env: [B]}",
                      "25: jobs.rules.job_id: 'a{C}' uses {C}, which 'env' does not define");
    expect_rule_error("{job_id: 'a{2}', cgroup: '(b)'}",
                      "25: jobs.rules.job_id: 'a{2}' uses {2}, which 'cgroup' does not define");
    expect_rule_error("{job_id: 'a~', command: b}", "25: jobs.rules.job_id: 'a~' contains '~', "
                                                    "which names earlier runs (JOB~1)");
    expect_rule_error("{job_id: a, cgroup: '(b'}",
                      "36: jobs.rules.cgroup: '(b' is not a usable pattern: Unmatched ( or \\(");
    expect_rule_error("{job_id: a, cgroup: '((b{99}){99}){99}'}",
                      "36: jobs.rules.cgroup: '((b{99}){99}){99}' is not a usable pattern: repeats "
                      "too often");
    expect_rule_error("{job_id: a, cgroup: '(b*)*'}",
                      "36: jobs.rules.cgroup: '(b*)*' is not a usable pattern: repeats a part that "
                      "may be empty");
    expect_rule_error("{job_id: a, command: '(b)\\1'}",
                      "37: jobs.rules.command: '(b)\\1' is not a usable pattern: has a "
                      "back-reference");
    expect_rule_error("{job_id: a, cgroup: ''}",
                      "36: jobs.rules.cgroup: '' is not a usable pattern: is empty");
    expect_rule_error("{job_id: a, env: []}", "33: jobs.rules.env: the list of variables is empty");
    expect_rule_error("{job_id: a, env: A}", "33: jobs.rules.env: 'A' is not a list of variables");
    expect_rule_error("{job_id: a, env: [A-B]}",
                      "34: jobs.rules.env: 'A-B' is not the name of a variable");
    expect_rule_error("{job_id: a, workspace: b}",
                      "39: jobs.rules.workspace: 'b' is not an absolute path (allowed: a path that "
                      "begins with / or ~/)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_error_values), cmocka_unit_test(test_error_types),
        cmocka_unit_test(test_error_keys),   cmocka_unit_test(test_error_yaml),
        cmocka_unit_test(test_error_text),   cmocka_unit_test(test_all_errors_are_collected),
        cmocka_unit_test(test_limits),       cmocka_unit_test(test_error_paths),
        cmocka_unit_test(test_rule_errors),  cmocka_unit_test(test_hostile_files_are_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
