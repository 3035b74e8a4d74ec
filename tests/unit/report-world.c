#include "report-world.h"

#include <stdlib.h>
#include <string.h>

#include "base/macros.h"

const struct report_style plain = {.columns = SIZE_MAX};
const struct report_style coloured = {.columns = SIZE_MAX, .with_colour = true};

int report_world_set_up(void **state _unused_)
{
    return setenv("TZ", "UTC0", 1);
}

struct job_report make_report(int outcome)
{
    struct job_report report;

    record_init(&job_report_record, &report);
    report.as_of = START + 600;
    report.job.run_id = "0197c2f4-7d1a-7000-8000-00000000002a";
    report.job.job_id = "make-7f3a";
    report.job.started_at = START;
    report.job.outcome = outcome;
    report.events_left_out = 0;
    return report;
}

struct job_report make_full_report(void)
{
    struct job_report report = make_report(OUTCOME_SUCCESS);
    struct job_profile *profile = &report.job.profile;

    report.job.job_type = "make test @parser";
    report.job.command = "make -j8 test --password=***";
    report.job.cwd = "/work/parser";
    report.job.host = "build-01";
    report.job.uid = 1000;
    report.job.ended_at = START + 12.3;
    report.job.exit_code = 0;
    profile->wall_seconds = 12.3;
    profile->cpu_seconds = 23.4;
    profile->user_seconds = 20.1;
    profile->system_seconds = 3.3;
    profile->peak_rss_mb = 812.4;
    profile->peak_total_mb = 1945.6;
    profile->peak_unique_min_mb = 1660;
    profile->peak_unique_mb = 1900;
    profile->processes = 1501;
    profile->exit_count = 1501;
    profile->left_running_count = 0;
    profile->max_cpu_pct = 398.2;
    profile->read_bytes = 3 * 1024 * 1024;
    profile->write_bytes = 0;
    profile->num_samples = 124;
    profile->collector = "procfs";
    profile->exactness.cpu_seconds = LOWER_BOUND;
    profile->exactness.peak_rss_mb = EXACT;
    profile->exactness.peak_total_mb = SAMPLED;
    profile->exactness.processes = EXACT;
    return report;
}

struct process_event make_event(int type, double after, int64_t pid, const char *command)
{
    struct process_event event;

    record_init(&process_event_record, &event);
    event.timestamp = START + after;
    event.event_type = type;
    event.pid = pid;
    event.command = command;
    return event;
}

struct process_event make_folded(int type, const char *command, int64_t count)
{
    struct process_event event = make_event(type, 4, 0, command);

    event.count = count;
    event.first_timestamp = START + 1;
    event.run_id = "run";
    return event;
}

const char *format(const struct job_report *report, const struct report_style *style,
                   struct text *out)
{
    text_reset(out);
    assert_int_equal(job_report_format(report, style, out), 0);
    return text_string(out);
}

void assert_harmless(const struct text *out)
{
    for (size_t i = 0; i < out->length; i++) {
        unsigned char byte = (unsigned char)out->bytes[i];
        assert_true(byte == '\n' || (byte >= 0x20 && byte != 0x7F));
    }
    assert_null(strstr(out->bytes, "\u202e"));
    assert_null(strstr(out->bytes, "\xff"));
}
