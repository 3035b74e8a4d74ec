#include "unit.h"

#include <string.h>

#include "engine/engine-settings.h"

static struct config *load(const char *yaml)
{
    _cleanup_config_errors_ struct config_errors errors = {0};
    struct config *config = NULL;

    assert_int_equal(config_load_bytes("sonde.yaml", yaml, strlen(yaml), &config, &errors), 0);
    return config;
}

static void test_defaults(void **state _unused_)
{
    _cleanup_config_ struct config *config = config_new();

    const struct engine_settings settings = engine_settings_of(config, NULL);
    assert_int_equal(settings.interval_ns, 5000000000);
    assert_int_equal(settings.linger_ns, 30000000000);
    assert_int_equal(settings.scope, SCOPE_JOBS);
    assert_int_equal(settings.syscalls, SYSCALLS_CHOICE_AUTO);
    assert_int_equal(settings.gpus, SWITCH_AUTO);
    assert_false(settings.traces_members);
    assert_null(settings.rules);
}

static void test_every_setting_is_derived(void **state _unused_)
{
    _cleanup_config_ struct config *config = load("profiler: {interval_seconds: 0.25, scope: all, "
                                                  "syscalls: bpf, gpu_enabled: false}\n"
                                                  "jobs: {linger_seconds: 1.5}\n");
    _cleanup_(rules_freep) struct rules *rules = NULL;

    assert_int_equal(rules_new(&config->jobs.rules, &rules), 0);
    const struct engine_settings settings = engine_settings_of(config, rules);
    assert_int_equal(settings.interval_ns, 250000000);
    assert_int_equal(settings.linger_ns, 1500000000);
    assert_int_equal(settings.scope, SCOPE_ALL);
    assert_int_equal(settings.syscalls, SYSCALLS_CHOICE_BPF);
    assert_int_equal(settings.gpus, SWITCH_OFF);
    assert_false(settings.traces_members);
    assert_ptr_equal(settings.rules, rules);
    assert_ptr_equal(settings.anomaly, &config->anomaly);
    assert_ptr_equal(settings.limits, &config->limits);
    assert_ptr_equal(settings.redact, &config->redact);
}

static void test_two_keys_trace_members(void **state _unused_)
{
    static const char *const keys[] = {"profiler: {strace_enabled: true}",
                                       "profiler: {syscalls: strace}"};

    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        _cleanup_config_ struct config *config = load(keys[i]);
        assert_true(engine_settings_of(config, NULL).traces_members);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_every_setting_is_derived),
        cmocka_unit_test(test_two_keys_trace_members),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
