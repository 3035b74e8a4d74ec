#include "unit.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "model/analysis.h"
#include "model/calibration.h"
#include "model/event.h"
#include "model/field-format.h"
#include "model/gap.h"
#include "model/job.h"
#include "model/pattern.h"
#include "model/record-json.h"
#include "model/signal-kind.h"
#include "model/snapshot.h"
#include "model/waiting-calls.h"

static const struct record *const all_records[] = {
    &process_metric_record, &snapshot_record,      &gpu_metric_record,  &job_progress_record,
    &job_usage_record,      &process_event_record, &anomaly_record,     &job_record,
    &sheet_record,          &job_profile_record,   &pattern_record,     &run_summary_record,
    &correlation_record,    &analysis_record,      &calibration_record,
};

/* ---- ends of processes and runs ---- */

static void test_signal_kinds(void **state _unused_)
{
    static const struct {
        int64_t number;
        bool is_fault, is_crash, has_sender;
    } cases[] = {
        {SIGSEGV, true, true, false},   {SIGTRAP, true, true, false},
        {SIGSYS, true, true, false},    {SIGABRT, false, true, false},
        {SIGKILL, false, true, true},   {SIGTERM, false, false, true},
        {SIGQUIT, false, false, true},  {SIGUSR1, false, false, false},
        {SIGPIPE, false, false, false}, {64, false, false, false},
        {-1, false, false, false},      {INT_UNKNOWN, false, false, false},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        assert_int_equal(signal_is_fault(cases[i].number), cases[i].is_fault);
        assert_int_equal(signal_is_crash(cases[i].number), cases[i].is_crash);
        assert_int_equal(signal_has_sender(cases[i].number), cases[i].has_sender);
    }
    assert_int_equal(SIGNAL_STATUS(SIGKILL), 137);
}

static void test_lost_runs(void **state _unused_)
{
    struct job job;

    record_init(&job_record, &job);
    assert_false(job_is_lost(&job));
    job.outcome = OUTCOME_UNKNOWN;
    assert_false(job_is_lost(&job));
    job.cause = "lost";
    assert_true(job_is_lost(&job));
    job.outcome = OUTCOME_FAILURE; /* "lost" is what its scheduler reported */
    assert_false(job_is_lost(&job));
}

static void test_waiting_calls(void **state _unused_)
{
    assert_true(call_is_waiting("vfork")); /* until the child has executed a program */
    assert_true(call_is_waiting("wait4"));
    assert_false(call_is_waiting("fork"));
    assert_false(call_is_waiting("read"));
}

/* ---- the tables themselves ---- */

static void test_tables_are_complete(void **state _unused_)
{
    for (size_t r = 0; r < ARRAY_SIZE(all_records); r++) {
        const struct record *record = all_records[r];
        for (size_t i = 0; i < record->field_count; i++) {
            const struct field *field = &record->fields[i];
            assert_non_null(field->name);
            assert_non_null(field->meaning);
            assert_ptr_equal(record_find(record, field->name), field); /* no name twice */
            assert_true(field->offset < record->size);
            assert_true((field->type == FIELD_ENUM) == (field->names != NULL));
            bool has_record = field->type == FIELD_RECORD || field->type == FIELD_RECORDS ||
                              field->type == FIELD_KEYED || field->type == FIELD_INLINE;
            assert_true(has_record == (field->record != NULL));
            assert_true(!field->title || field->width >= strlen(field->title));
        }
    }
}

static void test_process_fields_of_the_contract(void **state _unused_)
{
    static const char *const names[] = {
        "pid",
        "ppid",
        "command",
        "state",
        "cpu_percent",
        "rss_mb",
        "vms_mb",
        "threads",
        "open_fds",
        "age_seconds",
        "job_id",
        "sheet_num",
        "syscall_counts",
        "syscall_time_pct",
        "run_id",
        "start_time",
        "uid",
        "cpu_seconds",
        "shared_mb",
        "peak_rss_mb",
        "fd_limit",
        "read_bytes",
        "write_bytes",
        "gpu_memory_mb",
        "syscall_source",
    };
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        assert_non_null(record_find(&process_metric_record, names[i]));
    assert_int_equal(process_metric_record.field_count, ARRAY_SIZE(names));
}

/* ---- JSON both ways ---- */

static struct arena arena;

static const char *random_text(void)
{
    static const char *const texts[] = {"",        "make test", "quo\"te\\", "new\nline",
                                        "\033[0m", "日本語",    "\x7f",      "\xEF\xBF\xBD"};
    return texts[(size_t)rand() % ARRAY_SIZE(texts)];
}

static void random_record(const struct record *record, char *object, int depth);

static double random_real(const struct field *field)
{
    double step = field->resolution ? field->resolution : 1e-7;
    return (double)(rand() % 2000000 - 1000000) * step;
}

static void random_list(const struct field *field, void *value, int depth)
{
    size_t count = depth > 2 ? 0 : (size_t)rand() % 4;
    struct any_list *list = value;
    static const size_t sizes[] = {[FIELD_INTS] = sizeof(int64_t),
                                   [FIELD_TEXTS] = sizeof(char *),
                                   [FIELD_TALLY] = sizeof(struct tally)};
    size_t size = field->record ? field->record->size : sizes[field->type];

    list->items = arena_alloc(&arena, size * (count + 1));
    list->count = count;
    for (size_t i = 0; i < count; i++) {
        char *item = (char *)list->items + i * size;
        switch (field->type) {
        case FIELD_INTS: *(int64_t *)item = rand(); break;
        case FIELD_TEXTS: *(const char **)item = random_text(); break;
        case FIELD_TALLY: {
            char name[32];
            snprintf(name, sizeof(name), "call%zu", i);
            *(struct tally *)item = (struct tally){arena_strdup(&arena, name), random_real(field)};
            break;
        }
        default:
            random_record(field->record, item, depth + 1);
            if (field->type == FIELD_KEYED)
                *(int64_t *)(item + field->record->fields[0].offset) = (int64_t)i * 7;
        }
    }
}

static void random_record(const struct record *record, char *object, int depth)
{
    record_init(record, object);
    for (size_t i = 0; i < record->field_count; i++) {
        const struct field *field = &record->fields[i];
        void *value = object + field->offset;
        if (!field->required && rand() % 4 == 0)
            continue; /* unknown */
        switch (field->type) {
        case FIELD_INT: *(int64_t *)value = (int64_t)rand() * rand() - rand(); break;
        case FIELD_REAL: *(double *)value = random_real(field); break;
        case FIELD_TEXT: *(const char **)value = random_text(); break;
        case FIELD_CHAR: *(char *)value = "RSDZT"[rand() % 5]; break;
        case FIELD_ENUM: *(int *)value = 1 + rand() % ((int)field->name_count - 1); break;
        case FIELD_BOOL: *(int *)value = truth_of(rand() % 2); break;
        case FIELD_INLINE:
        case FIELD_RECORD: random_record(field->record, value, depth + 1); break;
        default: random_list(field, value, depth);
        }
    }
}

static void encode(const struct record *record, const void *object, struct text *out)
{
    struct json_writer json = {.out = out};
    record_encode(record, object, &json);
    assert_int_equal(text_error(out), 0);
}

static void test_round_trip_of_random_records(void **state _unused_)
{
    union {
        struct snapshot snapshot;
        struct job job;
        struct run_summary summary;
        char room[4096];
    } written, read;

    srand(5);
    for (int round = 0; round < 300; round++)
        for (size_t r = 0; r < ARRAY_SIZE(all_records); r++) {
            _cleanup_text_ struct text first = {0};
            _cleanup_text_ struct text second = {0};
            struct decode_error error = {""};
            assert_true(all_records[r]->size <= sizeof(written));
            random_record(all_records[r], (char *)&written, 0);
            encode(all_records[r], &written, &first);
            assert_int_equal(
                record_decode(all_records[r], first.bytes, first.length, &arena, &read, &error), 0);
            encode(all_records[r], &read, &second);
            assert_string_equal(text_string(&first), text_string(&second));
            arena_reset(&arena);
        }
    arena_done(&arena);
}

static void test_unknown_is_null_and_back(void **state _unused_)
{
    struct process_metric process, read;
    _cleanup_text_ struct text text = {0};
    struct decode_error error;

    record_init(&process_metric_record, &process);
    process.pid = 7;
    process.threads = 0;
    encode(&process_metric_record, &process, &text);
    assert_non_null(strstr(text.bytes, "\"pid\":7,\"ppid\":null,\"command\":null,\"state\":null,"
                                       "\"cpu_percent\":null"));
    assert_non_null(strstr(text.bytes, "\"threads\":0"));
    assert_non_null(strstr(text.bytes, "\"syscall_counts\":null"));
    assert_non_null(strstr(text.bytes, "\"syscall_source\":null"));
    assert_int_equal(
        record_decode(&process_metric_record, text.bytes, text.length, &arena, &read, &error), 0);
    assert_false(real_is_known(read.cpu_percent));
    assert_false(int_is_known(read.ppid));
    assert_null(read.command);
    assert_int_equal(read.threads, 0);
    arena_done(&arena);
}

static void assert_refused(const struct record *record, const char *json, const char *reason)
{
    char object[4096];
    struct decode_error error = {""};

    assert_int_equal(record_decode(record, json, strlen(json), &arena, object, &error), -EBADMSG);
    assert_string_equal(error.text, reason);
    arena_done(&arena);
}

static void test_errors_name_the_place(void **state _unused_)
{
    assert_refused(&process_metric_record, "{}", "pid: expected integer, found nothing");
    assert_refused(&process_metric_record, "{\"pid\":null}", "pid: expected integer, found null");
    assert_refused(&process_metric_record, "{\"pid\":1.5}",
                   "pid: expected an integer, found a fraction");
    assert_refused(&process_metric_record, "{\"pid\":1,\"state\":\"RS\"}",
                   "state: expected one character, found text");
    assert_refused(&process_metric_record, "{\"pid\":1,\"syscall_source\":\"guess\"}",
                   "syscall_source: expected a known word, found text");
    assert_refused(&process_metric_record, "[]", "top level: expected an object, found an array");
    assert_refused(&snapshot_record,
                   "{\"timestamp\":1,\"processes\":[{\"pid\":1},{\"pid\":\"x\"}]}",
                   "processes[1].pid: expected an integer, found text");
    assert_refused(&snapshot_record, "{\"timestamp\":1,\"psi\":{\"memory\":{\"some_avg10\":[]}}}",
                   "psi.memory.some_avg10: expected a number, found an array");
    assert_refused(&process_metric_record, "{\"pid\":1,\"pid\":2}",
                   "line 1, column 14: duplicate object key near '\"pid\"'");
}

static void test_unknown_fields_are_ignored(void **state _unused_)
{
    const char json[] = "{\"pid\":1,\"invented_later\":{\"deep\":[1,2]}}";
    struct process_metric process;
    struct decode_error error;

    assert_int_equal(
        record_decode(&process_metric_record, json, strlen(json), &arena, &process, &error), 0);
    assert_int_equal(process.pid, 1);
}

/* ---- names of jobs ---- */

/* The fields of an inner record are fields of the outer one; a field that the reference calls
 * differently has both names, and is read under either. */
static void test_inline_records_and_aliases(void **state _unused_)
{
    static const char old[] =
        "{\"run_id\":\"r\",\"total_cpu_seconds\":2.5,\"process_spawn_count\":7}";
    _cleanup_text_ struct text out = {0};
    struct json_writer json = {.out = &out};
    struct run_summary summary, found;
    struct decode_error error;

    record_init(&run_summary_record, &summary);
    summary.run_id = "r";
    summary.profile.job_id = "build";
    summary.profile.cpu_seconds = 1.5;
    summary.profile.processes = 3;
    summary.profile.exactness.processes = LOWER_BOUND;
    record_encode(&run_summary_record, &summary, &json);
    assert_non_null(strstr(text_string(&out), ",\"job_id\":\"build\","));
    assert_non_null(strstr(text_string(&out), "\"cpu_seconds\":1.5,\"total_cpu_seconds\":1.5,"));
    assert_non_null(strstr(text_string(&out), "\"processes\":3,\"process_spawn_count\":3,"));
    assert_null(strstr(text_string(&out), "\"profile\""));
    assert_int_equal(
        record_decode(&run_summary_record, out.bytes, out.length, &arena, &found, &error), 0);
    assert_string_equal(found.profile.job_id, "build");
    assert_int_equal(found.profile.exactness.processes, LOWER_BOUND);
    assert_int_equal(record_decode(&run_summary_record, old, strlen(old), &arena, &found, &error),
                     0);
    assert_true(found.profile.cpu_seconds == 2.5);
    assert_int_equal(found.profile.processes, 7);
    assert_ptr_equal(record_find(&job_profile_record, "total_cpu_seconds"),
                     record_find(&job_profile_record, "cpu_seconds"));
    arena_done(&arena);
}

/* A figure has the exactness of its name, or of another figure, or is always a lower bound. */
static void test_exactness_of_figures(void **state _unused_)
{
    struct job_profile profile;

    record_init(&job_profile_record, &profile);
    profile.exactness.processes = SAMPLED;
    profile.exactness.cpu_seconds = LOWER_BOUND;
#define EXACTNESS(name) job_profile_exactness(&profile, record_find(&job_profile_record, name))
    assert_int_equal(EXACTNESS("processes"), SAMPLED);
    assert_int_equal(EXACTNESS("failed_exit_count"), SAMPLED);
    assert_int_equal(EXACTNESS("cpu_seconds"), LOWER_BOUND);
    assert_int_equal(EXACTNESS("peak_rss_mb"), EXACTNESS_UNKNOWN);
    assert_int_equal(EXACTNESS("wall_seconds"), -ENOENT);
    assert_int_equal(EXACTNESS("read_bytes"), LOWER_BOUND);
#undef EXACTNESS
}

static void test_job_ids(void **state _unused_)
{
    static const char *const refused[] = {
        "",
        "a~1",
        "new\nline",
        "\xFF",
        "\u202E",
        " ",
        " a",
        "a ",
        "\u00A0a",
        "a\u3000",
        "a\u00ADb",
        "a\u200Bb",
        "\uFEFFa",
        "a\u2060",
        "a\U000E0041",
        "01970000-aaaa-7bbb-8ccc-ddddeeeeffff",
        "01970000-AAAA-7BBB-8CCC-DDDDEEEEFFFF",
    };
    static const char *const accepted[] = {
        "ci/build 日本 #3",
        "a\u00A0b",
        "01970000-aaaa-7bbb-8ccc-ddddeeeefff",
        "01970000-aaaa-7bbb-8ccc-ddddeeeeffff-2",
        "0197000g-aaaa-7bbb-8ccc-ddddeeeeffff",
    };
    char long_id[JOB_ID_MAX_BYTES + 2];
    const char *reason;

    for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
        assert_int_equal(job_id_check(refused[i], &reason), -EINVAL);
    for (size_t i = 0; i < ARRAY_SIZE(accepted); i++)
        assert_int_equal(job_id_check(accepted[i], &reason), 0);
    assert_int_equal(job_id_check(refused[ARRAY_SIZE(refused) - 1], &reason), -EINVAL);
    assert_string_equal(reason, "looks like a run_id");
    memset(long_id, 'a', sizeof(long_id) - 1);
    long_id[sizeof(long_id) - 1] = '\0';
    assert_int_equal(job_id_check(long_id, &reason), -EINVAL);
    long_id[JOB_ID_MAX_BYTES] = '\0';
    assert_int_equal(job_id_check(long_id, &reason), 0);
}

static void test_default_names(void **state _unused_)
{
    char text[JOB_ID_MAX_BYTES + 1];
    const char *reason;

    job_id_format((const char *const[]){"/usr/bin/make", "test", NULL}, 0x7f3a, text, sizeof(text));
    assert_string_equal(text, "make-7f3a");
    job_type_format((const char *const[]){"/usr/bin/make", "-j8", "test", "all", NULL},
                    "/home/me/parser", text, sizeof(text));
    assert_string_equal(text, "make test @parser");
    job_type_format((const char *const[]){"true", NULL}, "/", text, sizeof(text));
    assert_string_equal(text, "true @/");
    job_type_format((const char *const[]){"true", NULL}, NULL, text, sizeof(text));
    assert_string_equal(text, "true");

    /* The names made from any command are valid. */
    static const char *const hostile[] = {
        "",
        "\033[31m",
        "~",
        "/",
        "a b",
        "\xFF\xFE",
        "x\ny",
        "\u202E",
        "\xC2\x9B",
        " ",
        " a",
        "a ",
        "\u3000",
        "a\u00A0",
        "\u200B",
        "a\u00ADb\u2060",
        "\uFEFF",
        "01970000-aaaa-7bbb-8ccc-ddddeeeeffff",
        "01970000-aaaa-7bbb-8ccc",
        "a name whose 31st byte is blank. x",
    };
    for (size_t i = 0; i < ARRAY_SIZE(hostile); i++) {
        const char *const argv[] = {hostile[i], hostile[i], NULL};
        job_id_format(argv, 1, text, sizeof(text));
        assert_int_equal(job_id_check(text, &reason), 0);
        job_type_format(argv, hostile[i], text, sizeof(text));
        assert_int_equal(job_id_check(text, &reason), 0);
        job_type_format(argv, NULL, text, sizeof(text));
        assert_int_equal(job_id_check(text, &reason), 0);
        job_type_format((const char *const[]){hostile[i], NULL}, NULL, text, sizeof(text));
        assert_int_equal(job_id_check(text, &reason), 0);
    }
}

/* ---- gaps ---- */

static void test_gaps(void **state _unused_)
{
    const uint64_t second = NS_PER_SEC;
    const struct moment start = {100 * second, 200 * second, 1000 * second};
    struct moment later = {101 * second, 201 * second, 1001 * second};

    assert_int_equal(gap_between(&start, &later, second).kind, GAP_NONE);
    later.mono_ns = 104 * second;
    later.boot_ns = 204 * second;
    later.real_ns = 1004 * second;
    struct gap gap = gap_between(&start, &later, second);
    assert_int_equal(gap.kind, GAP_MISSED_TICKS);
    assert_true(gap.seconds == 3);

    later = (struct moment){101 * second, 3801 * second, 4601 * second};
    gap = gap_between(&start, &later, second);
    assert_int_equal(gap.kind, GAP_SUSPEND);
    assert_true(gap.seconds == 3600);

    later = (struct moment){101 * second, 201 * second, 900 * second};
    gap = gap_between(&start, &later, second);
    assert_int_equal(gap.kind, GAP_CLOCK_STEP);
    assert_true(gap.seconds == -101);
}

/* ---- cells ---- */

static void assert_cell(const char *name, const struct process_metric *process, const char *cell)
{
    _cleanup_text_ struct text text = {0};
    const struct field *field = record_find(&process_metric_record, name);

    assert_int_equal(field_format(field, process, 12, &text), strlen(cell));
    assert_string_equal(text_string(&text), cell);
}

static void test_cells(void **state _unused_)
{
    struct process_metric process;

    record_init(&process_metric_record, &process);
    assert_cell("rss_mb", &process, "-");
    assert_cell("pid", &process, "-");
    assert_cell("command", &process, "-");
    assert_cell("state", &process, "-");
    process.rss_mb = 812.44;
    assert_cell("rss_mb", &process, "812.4M");
    process.rss_mb = 1023 * 1024;
    assert_cell("rss_mb", &process, "1.0T");
    process.cpu_percent = 99.96;
    assert_cell("cpu_percent", &process, "100.0");
    process.read_bytes = 3 << 20;
    assert_cell("read_bytes", &process, "3.0M");
    static const struct {
        double seconds;
        const char *text;
    } ages[] = {
        {0.421, "0.42"}, {59.9, "59.90"}, {754, "12:34"}, {18754, "5:12:34"}, {273600, "3d04h"}};
    for (size_t i = 0; i < ARRAY_SIZE(ages); i++) {
        process.age_seconds = ages[i].seconds;
        assert_cell("age_seconds", &process, ages[i].text);
    }
    process.command = "a\nb";
    assert_cell("command", &process, "a\\nb");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_signal_kinds),
        cmocka_unit_test(test_lost_runs),
        cmocka_unit_test(test_waiting_calls),
        cmocka_unit_test(test_tables_are_complete),
        cmocka_unit_test(test_process_fields_of_the_contract),
        cmocka_unit_test(test_round_trip_of_random_records),
        cmocka_unit_test(test_unknown_is_null_and_back),
        cmocka_unit_test(test_errors_name_the_place),
        cmocka_unit_test(test_unknown_fields_are_ignored),
        cmocka_unit_test(test_inline_records_and_aliases),
        cmocka_unit_test(test_exactness_of_figures),
        cmocka_unit_test(test_job_ids),
        cmocka_unit_test(test_default_names),
        cmocka_unit_test(test_gaps),
        cmocka_unit_test(test_cells),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
