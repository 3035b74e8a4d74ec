#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "cli/arguments.h"
#include "cli/follow.h"
#include "detect/admission.h"
#include "report/process-table.h"

/* ---- arguments ---- */

static const struct command_option options[] = {
    {"job", 'j', "ID", ""},
    {"wait", 'w', NULL, ""},
    {"interval", 0, "TIME", ""},
    {"step", 0, "N", "", .old_name = "sheet"},
    {"json", 0, NULL, NULL, .instead = "--summary -"},
};

static char error[256];

static int parse(struct arguments *arguments, bool stops_at_word, char **argv)
{
    int argc = 0;
    while (argv[argc])
        argc++;
    return arguments_parse(argc, argv, options, ARRAY_SIZE(options), stops_at_word, arguments,
                           error, sizeof(error));
}

#define ARGV(...) ((char *[]){W("verb"), __VA_ARGS__, NULL})
/* String literals are const, argv is not. */
#define W(text) ((char[]){text})

static void test_options_and_arguments(void **state _unused_)
{
    struct arguments arguments;

    assert_int_equal(parse(&arguments, false, ARGV(W("a"), W("--job=x"), W("b"), W("-w"))), 0);
    assert_int_equal(arguments.count, 2);
    assert_string_equal(arguments.words[1], "b");
    assert_null(arguments.words[2]);
    assert_string_equal(arguments_value(&arguments, "job"), "x");
    assert_true(arguments_has(&arguments, "wait"));
    assert_false(arguments_has(&arguments, "interval"));

    assert_int_equal(parse(&arguments, false, ARGV(W("-j"), W("1"), W("--job"), W("2"))), 0);
    assert_string_equal(arguments_value(&arguments, "job"), "2"); /* the last wins */
    assert_int_equal(parse(&arguments, false, ARGV(W("--"), W("--job"))), 0);
    assert_string_equal(arguments.words[0], "--job");
    assert_int_equal(parse(&arguments, false, ARGV(W("-"))), 0);
    assert_int_equal(arguments.count, 1);
}

static void test_option_of_another_verb(void **state _unused_)
{
    struct arguments arguments;

    assert_int_equal(parse(&arguments, false, ARGV(W("--json"))), -EINVAL);
    assert_string_equal(error, "unknown option '--json'; did you mean '--summary -'?");
    assert_int_equal(parse(&arguments, false, ARGV(W("--jsn"))), -EINVAL);
    assert_string_equal(error, "unknown option '--jsn'");
}

static void test_long_words_are_cut(void **state _unused_)
{
    char word[1000] = "";

    assert_string_equal(SHOWN("short"), "short");
    memset(word, 'x', 60);
    assert_string_equal(SHOWN(word), word);
    strcpy(word + 59, "\u00e9 and more"); /* not cut within a character */
    assert_int_equal(strlen(SHOWN(word)), 62);
    assert_string_equal(SHOWN(word) + 59, "...");
}

static void test_options_of_the_command(void **state _unused_)
{
    struct arguments arguments;

    assert_int_equal(parse(&arguments, true, ARGV(W("-w"), W("make"), W("--job"), W("-j8"))), 0);
    assert_int_equal(arguments.count, 3);
    assert_string_equal(arguments.words[2], "-j8");
    assert_false(arguments_has(&arguments, "job"));
    assert_int_equal(parse(&arguments, true, ARGV(W("--"), W("-w"), W("--"))), 0);
    assert_int_equal(arguments.count, 2);
    assert_string_equal(arguments.words[1], "--");
}

static void test_familiar_forms(void **state _unused_)
{
    struct arguments arguments;

    assert_int_equal(parse(&arguments, false, ARGV(W("-jnightly"), W("--step"), W("3"))), 0);
    assert_string_equal(arguments_value(&arguments, "job"), "nightly");
    assert_string_equal(arguments_value(&arguments, "step"), "3");
    assert_int_equal(parse(&arguments, true, ARGV(W("-wjx"), W("--sheet=4"), W("a"), W("-w"))), 0);
    assert_true(arguments_has(&arguments, "wait"));
    assert_string_equal(arguments_value(&arguments, "job"), "x");
    assert_string_equal(arguments_value(&arguments, "step"), "4");
    assert_int_equal(arguments.count, 2);
    assert_int_equal(arguments.before_dashes, 2);
    assert_int_equal(parse(&arguments, false, ARGV(W("a"), W("-w"), W("--"), W("b"), W("-j"))), 0);
    assert_int_equal(arguments.count, 3);
    assert_int_equal(arguments.before_dashes, 1);
    assert_string_equal(arguments.words[1], "b");
    assert_string_equal(arguments.words[2], "-j");
    assert_int_equal(parse(&arguments, false, ARGV(W("--job=--"))), 0);
    assert_string_equal(arguments_value(&arguments, "job"), "--");
}

static void assert_wrong_usage(char **argv, const char *reason)
{
    struct arguments arguments;
    assert_int_equal(parse(&arguments, false, argv), -EINVAL);
    assert_string_equal(error, reason);
}

static void test_wrong_usage(void **state _unused_)
{
    assert_wrong_usage(ARGV(W("--intervall=3")),
                       "unknown option '--intervall'; did you mean '--interval'?");
    assert_wrong_usage(ARGV(W("--zzz")), "unknown option '--zzz'");
    assert_wrong_usage(ARGV(W("-x")), "unknown option '-x'");
    assert_wrong_usage(ARGV(W("--interva=3")),
                       "unknown option '--interva'; did you mean '--interval'?");
    assert_wrong_usage(ARGV(W("-wx")), "unknown option '-x'");
    assert_wrong_usage(ARGV(W("-interval")),
                       "unknown option '-interval'; did you mean '--interval'?");
    assert_wrong_usage(ARGV(W("-j")), "option '--job' needs a value (ID)");
    assert_wrong_usage(ARGV(W("--job"), W("--"), W("x")), "option '--job' needs a value (ID)");
    assert_wrong_usage(ARGV(W("--job")), "option '--job' needs a value (ID)");
    assert_wrong_usage(ARGV(W("--wait=1")), "option '--wait' takes no value");

    char *many[ARGUMENTS_MAX_OPTIONS + 3] = {W("verb")}, word[] = "--wait";
    for (size_t i = 1; i <= ARGUMENTS_MAX_OPTIONS + 1; i++)
        many[i] = word;
    assert_wrong_usage(many, "too many options");
}

/* ---- the table ---- */

static struct process_metric make(int64_t pid, int64_t ppid, double cpu, const char *command)
{
    struct process_metric process;

    record_init(&process_metric_record, &process);
    process.pid = pid;
    process.ppid = ppid;
    process.start_ticks = (uint64_t)pid;
    process.cpu_percent = cpu;
    process.command = command;
    return process;
}

static void format(struct process_metric *processes, size_t count,
                   struct process_table_options table_options, struct text *out)
{
    _cleanup_(snapshot_freep) struct snapshot *snapshot = snapshot_new();
    snapshot->processes = (struct process_list){.items = processes, .count = count};
    assert_int_equal(process_table_format(snapshot, &table_options, out), 0);
}

static void test_table_by_use(void **state _unused_)
{
    struct process_metric processes[] = {make(1, 0, 0, "idle"), make(2, 1, NAN, "unknown"),
                                         make(3, 1, 50, "busy\033[2J\nname")};
    _cleanup_text_ struct text out = {0};

    format(processes, 3, (struct process_table_options){.columns = 120}, &out);
    const char *busy = strstr(out.bytes, "busy\\x1b[2J\\nname");
    const char *idle = strstr(out.bytes, "idle"), *unknown = strstr(out.bytes, "unknown");
    assert_true(busy && busy < idle && idle < unknown);
    assert_null(strchr(out.bytes, '\033'));
    assert_null(strstr(out.bytes, "JOB")); /* no job, no column */
}

static void test_table_as_tree(void **state _unused_)
{
    struct process_metric processes[] = {make(1, 0, 0, "root"), make(9, 1, 0, "second"),
                                         make(2, 1, 0, "first"), make(5, 2, 0, "below")};
    _cleanup_text_ struct text out = {0};

    format(processes, 4, (struct process_table_options){.columns = SIZE_MAX, .as_tree = true},
           &out);
    const char *root = strstr(out.bytes, " root\n"), *second = strstr(out.bytes, "   second\n");
    const char *first = strstr(out.bytes, "   first\n");
    const char *below = strstr(out.bytes, "     below\n");
    assert_true(root && root < second && second < first && first < below);
}

/* The indentation does not push the command off the screen. */
static void test_deep_tree_fits_the_terminal(void **state _unused_)
{
    enum { DEPTH = 40 };
    struct process_metric processes[DEPTH];

    for (int i = 0; i < DEPTH; i++)
        processes[i] = make(i + 1, i, 0, i == DEPTH - 1 ? "deepest --of=all" : "bash");
    for (size_t columns = 80; columns <= 120; columns += 40) {
        _cleanup_text_ struct text out = {0};
        format(processes, DEPTH,
               (struct process_table_options){.columns = columns, .as_tree = true}, &out);
        assert_non_null(strstr(out.bytes, "  deepest"));
        for (char *line = strtok(out.bytes, "\n"); line; line = strtok(NULL, "\n")) {
            size_t width = 0;
            for (const char *at = line; *at; at++)
                width += (*at & 0xC0) != 0x80; /* a column for each character: none is wide */
            assert_in_range(width, 1, columns);
        }
    }
}

static void test_cycle_of_parents(void **state _unused_)
{
    struct process_metric processes[] = {make(1, 2, 0, "a"), make(2, 1, 0, "b"),
                                         make(3, 3, 0, "c")};
    _cleanup_text_ struct text out = {0};

    processes[0].start_ticks = processes[1].start_ticks = 7;
    format(processes, 3, (struct process_table_options){.columns = 80, .as_tree = true}, &out);
    assert_non_null(strstr(out.bytes, " c\n"));
}

static void test_table_fits_the_terminal(void **state _unused_)
{
    struct process_metric processes[] = {make(1, 0, 0, "日本語の長い名前日本語の長い名前日本語")};
    _cleanup_text_ struct text out = {0};

    format(processes, 1, (struct process_table_options){.columns = 100}, &out);
    assert_non_null(strstr(out.bytes, "…\n"));
}

/* ---- admission without a daemon ---- */

static struct admission judge(double total_mb, double free_mb, double psi_full,
                              const struct resource_estimate *estimate)
{
    _cleanup_(snapshot_freep) struct snapshot *snapshot = snapshot_new();
    struct admission admission;

    snapshot->system_memory_total_mb = total_mb;
    snapshot->system_memory_available_mb = free_mb;
    snapshot->psi.memory.full_avg10 = psi_full;
    admission_without_daemon(snapshot, estimate, &admission);
    return admission;
}

static void test_free_memory_decides_alone(void **state _unused_)
{
    struct admission admission = judge(1000, 150, REAL_UNKNOWN, NULL);

    assert_true(admission.allowed);
    assert_true(admission.delay_seconds == 0);
    assert_string_equal(admission.reason, "no daemon: decided by free memory alone");
    admission = judge(1000, 149, 0, NULL);
    assert_false(admission.allowed);
    assert_int_equal(admission.level, PRESSURE_HIGH);
    assert_true(admission.delay_seconds == 30);
    assert_string_equal(admission.reason, "only 149.0 MB of 1000.0 MB of memory are free");
    admission = judge(1000, 49, 0, NULL);
    assert_int_equal(admission.level, PRESSURE_CRITICAL);
    assert_true(admission.delay_seconds == 60);

    assert_true(judge(1000, 900, 49.9, NULL).allowed);
    admission = judge(1000, 900, 50, NULL);
    assert_false(admission.allowed);
    assert_int_equal(admission.level, PRESSURE_CRITICAL);
}

static void test_unknown_memory_refuses(void **state _unused_)
{
    struct admission admission;

    admission_without_daemon(NULL, NULL, &admission);
    assert_false(admission.allowed);
    assert_int_equal(admission.level, PRESSURE_CRITICAL);
    assert_false(judge(REAL_UNKNOWN, 100, 0, NULL).allowed);
    assert_false(judge(100, REAL_UNKNOWN, 0, NULL).allowed);
}

static void test_a_type_that_needs_more_is_refused(void **state _unused_)
{
    struct resource_estimate estimate = {.estimated_peak_memory_mb = 600, .confidence = 0.5};

    assert_true(judge(1000, 600, 0, &estimate).allowed);
    struct admission admission = judge(1000, 599, 0, &estimate);
    assert_false(admission.allowed);
    assert_true(admission.delay_seconds == 10);
    assert_non_null(strstr(admission.reason, "need up to 600.0 MB of memory, and 599.0 MB"));
    estimate.confidence = 0.49;
    assert_true(judge(1000, 599, 0, &estimate).allowed);
    estimate.confidence = REAL_UNKNOWN;
    assert_true(judge(1000, 599, 0, &estimate).allowed);
}

/* ---- selection of events ---- */

static struct event_line make_event(int event_type, int64_t pid, const char *job_id,
                                    const char *run_id)
{
    struct event_line news = {.event = "process.exit",
                              .job_id = job_id,
                              .sheet_num = INT_UNKNOWN,
                              .kind = EVENT_KIND_PROCESS};

    record_init(&process_event_record, &news.process);
    news.process.event_type = event_type;
    news.process.pid = pid;
    news.process.run_id = run_id;
    return news;
}

static void test_selection_of_events(void **state _unused_)
{
    const struct event_line exit = make_event(EVENT_EXIT, 7, "make", "r-1");
    const struct event_line gap = {.event = "monitor.gap", .kind = EVENT_KIND_GAP};
    const struct event_line job = {
        .event = "job.started", .job_id = "make", .kind = EVENT_KIND_JOB};
    struct follow_options follow = {.filter = EVENT_FILTER_ALL};

    assert_true(follow_matches(&follow, &exit) && follow_matches(&follow, &gap) &&
                follow_matches(&follow, &job));
    follow.job = "make";
    assert_true(follow_matches(&follow, &exit) && follow_matches(&follow, &job));
    assert_false(follow_matches(&follow, &gap));
    follow.job = "r-1";
    assert_true(follow_matches(&follow, &exit));
    assert_false(follow_matches(&follow, &job));
    follow.job = "mak";
    assert_false(follow_matches(&follow, &exit));

    follow = (struct follow_options){.filter = EVENT_FILTER_ALL};
    follow.filter.event_type = EVENT_EXIT;
    assert_true(follow_matches(&follow, &exit));
    assert_false(follow_matches(&follow, &job) || follow_matches(&follow, &gap));
    follow.filter.event_type = EVENT_KILL;
    assert_false(follow_matches(&follow, &exit));

    follow = (struct follow_options){.filter = EVENT_FILTER_ALL};
    follow.filter.pid = 7;
    assert_true(follow_matches(&follow, &exit));
    assert_false(follow_matches(&follow, &job));
    follow.filter.pid = 8;
    assert_false(follow_matches(&follow, &exit));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options_and_arguments),
        cmocka_unit_test(test_option_of_another_verb),
        cmocka_unit_test(test_long_words_are_cut),
        cmocka_unit_test(test_options_of_the_command),
        cmocka_unit_test(test_familiar_forms),
        cmocka_unit_test(test_wrong_usage),
        cmocka_unit_test(test_table_by_use),
        cmocka_unit_test(test_table_as_tree),
        cmocka_unit_test(test_deep_tree_fits_the_terminal),
        cmocka_unit_test(test_cycle_of_parents),
        cmocka_unit_test(test_table_fits_the_terminal),
        cmocka_unit_test(test_free_memory_decides_alone),
        cmocka_unit_test(test_unknown_memory_refuses),
        cmocka_unit_test(test_a_type_that_needs_more_is_refused),
        cmocka_unit_test(test_selection_of_events),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
