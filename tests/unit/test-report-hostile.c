/* A report with hostile names and with the content of a damaged database: control characters do not
 * reach the terminal. */
#include "report-world.h"

#include <math.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/macros.h"

static void test_hostile_texts(void **state _unused_)
{
    struct job_report report = make_report(OUTCOME_FAILURE);
    struct process_event event = make_event(EVENT_KILL, 1, 5, HOSTILE);
    struct sheet sheet;
    struct anomaly anomaly;
    struct gap gap = {GAP_NOT_STORED, START, 1, 1, HOSTILE};
    struct tally tally = {HOSTILE, 1};
    _cleanup_text_ struct text out = {0};

    record_init(&sheet_record, &sheet);
    record_init(&anomaly_record, &anomaly);
    report.job.job_id = report.job.job_type = report.job.command = report.job.cwd = HOSTILE;
    report.job.host = report.job.cause = report.job.parent_run_id = HOSTILE;
    report.job.profile.collector = HOSTILE;
    report.job.profile.num_samples = 1;
    event.sender_command = event.details = event.job_id = HOSTILE;
    event.signal_num = 9;
    sheet.name = HOSTILE;
    anomaly.anomaly_type = anomaly.description = HOSTILE;
    struct job within = report.job;
    report.events = (struct process_event_list){&event, 1};
    report.sheets = (struct sheet_list){&sheet, 1};
    report.anomalies = (struct anomaly_list){&anomaly, 1};
    report.gaps = (struct gap_list){&gap, 1};
    report.job.profile.syscall_hotspots = (struct tally_list){&tally, 1};
    report.runs_within = (struct job_list){&within, 1};
    struct process_event chain[] = {event, event}, storm = make_folded(EVENT_KILL, HOSTILE, 5);
    report.job.chain = (struct process_event_list){chain, 2};
    report.storms = (struct process_event_list){&storm, 1};
    assert_harmless((format(&report, &plain, &out), &out));
    assert_non_null(strstr(out.bytes, "x\\x1b[2J\\n\\r\\b\\u202e"));
    for (size_t columns = 0; columns < 200; columns += 7)
        assert_harmless((format(&report, &(struct report_style){.columns = columns}, &out), &out));
}

/* Figures that only a damaged database can have. */
static void test_absurd_figures(void **state _unused_)
{
    static const double absurd[] = {-1,       0,         1e300,          -1e300,
                                    INFINITY, -INFINITY, 253402300799.0, 1e18};
    _cleanup_text_ struct text out = {0};

    for (size_t i = 0; i < ARRAY_SIZE(absurd); i++) {
        struct job_report report = make_full_report();
        struct gap gap = {GAP_CLOCK_STEP, absurd[i], absurd[i], INT64_MAX, NULL};
        struct tally tally = {"read", absurd[i]};
        double *const reals[] = {&report.as_of,
                                 &report.job.started_at,
                                 &report.job.ended_at,
                                 &report.job.profile.wall_seconds,
                                 &report.job.profile.cpu_seconds,
                                 &report.job.profile.peak_rss_mb,
                                 &report.job.profile.gap_seconds};
        for (size_t j = 0; j < ARRAY_SIZE(reals); j++)
            *reals[j] = absurd[i];
        report.job.signal_num = INT64_MAX;
        report.job.exit_code = INT64_MIN + 1;
        report.job.profile.processes = -5;
        report.gaps = (struct gap_list){&gap, 1};
        report.job.profile.syscall_hotspots = report.job.profile.syscall_counts =
            (struct tally_list){&tally, 1};
        format(&report, &coloured, &out);
        assert_true(out.length < 4096);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hostile_texts),
        cmocka_unit_test(test_absurd_figures),
    };
    return cmocka_run_group_tests(tests, report_world_set_up, NULL);
}
