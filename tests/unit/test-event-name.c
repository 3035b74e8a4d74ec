#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "model/event-name.h"

#define FOR_EACH_NAME(name)                                                                        \
    for (enum event_name name = EVENT_NAME_UNKNOWN + 1; name < EVENT_NAME_COUNT; name++)

static void test_names(void **state _unused_)
{
    FOR_EACH_NAME(name)
    {
        assert_non_null(event_name_text(name));
        assert_int_equal(event_name_find(event_name_text(name)), name);
        assert_int_not_equal(event_name_kind(event_name_text(name)), EVENT_KIND_OTHER);
        assert_non_null(strstr(event_name_text(name), event_name_word(name)));
    }
    assert_string_equal(event_name_text(EVENT_NAME_STEP_FAILED), "sheet.failed");
    assert_string_equal(event_name_word(EVENT_NAME_STEP_FAILED), "failed");
    assert_int_equal(event_name_find("sheet.fail"), EVENT_NAME_UNKNOWN);
    assert_int_equal(event_name_find(""), EVENT_NAME_UNKNOWN);
}

/* The name of an event of a process ends with the name of its type. */
static void test_types(void **state _unused_)
{
    for (int type = EVENT_SPAWN; type <= EVENT_OOM; type++) {
        enum event_name name = event_name_of_type(type);
        assert_int_equal(event_name_kind(event_name_text(name)), EVENT_KIND_PROCESS);
        assert_string_equal(event_name_word(name), event_type_names[type]);
    }
    assert_int_equal(event_name_of_type(EVENT_UNKNOWN), EVENT_NAME_UNKNOWN);
    assert_int_equal(event_name_of_type(EVENT_OOM + 1), EVENT_NAME_UNKNOWN);
    assert_string_equal(event_name_text(event_name_of_type(99)), "process.event");
}

static void test_unknown_names_have_the_kind_of_their_group(void **state _unused_)
{
    static const struct {
        const char *text;
        enum event_kind kind;
    } cases[] = {
        {"process.freeze", EVENT_KIND_PROCESS},
        {"job.paused", EVENT_KIND_JOB},
        {"sheet.skipped", EVENT_KIND_STEP},
        {"monitor.clock", EVENT_KIND_OTHER},
        {"disk.full", EVENT_KIND_OTHER},
        {"jobs.started", EVENT_KIND_OTHER},
        {"job", EVENT_KIND_OTHER},
        {"", EVENT_KIND_OTHER},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        assert_int_equal(event_name_kind(cases[i].text), cases[i].kind);
}

static void test_steps(void **state _unused_)
{
    struct process_event event = {.event_type = EVENT_EXIT, .sheet_num = 3};

    assert_int_equal(event_name_of_step(&event), EVENT_NAME_UNKNOWN);
    event.details = "Sheet 3 completed";
    assert_int_equal(event_name_of_step(&event), EVENT_NAME_STEP_COMPLETED);
    event.details = "Sheet 3 failed";
    assert_int_equal(event_name_of_step(&event), EVENT_NAME_STEP_FAILED);
    event.sheet_num = 4;
    assert_int_equal(event_name_of_step(&event), EVENT_NAME_UNKNOWN);
    event.event_type = EVENT_SPAWN;
    event.details = "Sheet 4 started";
    assert_int_equal(event_name_of_step(&event), EVENT_NAME_STEP_STARTED);
    event.event_type = EVENT_EXEC;
    assert_int_equal(event_name_of_step(&event), EVENT_NAME_UNKNOWN);
}

static void test_patterns(void **state _unused_)
{
    assert_true(event_name_exists("*"));
    assert_true(event_name_exists("sheet.*"));
    assert_true(event_name_exists("monitor.anomaly_c*"));
    assert_false(event_name_exists("sheets.*"));
    assert_false(event_name_exists("process.event"));
    assert_false(event_name_exists(""));
}

/* The patterns match every event except snapshots. */
static void test_patterns_without_snapshots(void **state _unused_)
{
    _cleanup_text_ struct text list = {0};
    struct json_writer json = {.out = &list};
    bool matches[EVENT_NAME_COUNT] = {false};

    event_name_write_patterns(&json);
    assert_string_equal(text_string(&list),
                        "[\"monitor.anomaly\",\"monitor.anomaly_cleared\",\"monitor.gap\","
                        "\"process.*\",\"job.*\",\"sheet.*\"]");
    for (char *pattern = strtok(list.bytes, "[],\""); pattern; pattern = strtok(NULL, "[],\""))
        FOR_EACH_NAME(name)
    matches[name] |= event_name_matches(pattern, event_name_text(name));
    FOR_EACH_NAME(name)
    assert_int_equal(matches[name], name != EVENT_NAME_SNAPSHOT);
}

static void test_texts(void **state _unused_)
{
    _cleanup_text_ struct text groups = {0}, table = {0};

    event_name_append_groups(&groups);
    assert_string_equal(text_string(&groups), "monitor., process., job. or sheet.");
    event_name_markdown(&table);
    FOR_EACH_NAME(name)
    {
        char row[64];
        snprintf(row, sizeof(row), "\n| `%s` | ", event_name_text(name));
        assert_non_null(strstr(text_string(&table), row));
    }
    assert_null(strstr(text_string(&table), "(null)"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_unknown_names_have_the_kind_of_their_group),
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_patterns),
        cmocka_unit_test(test_patterns_without_snapshots),
        cmocka_unit_test(test_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
