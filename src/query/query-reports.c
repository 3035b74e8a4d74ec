#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/macros.h"
#include "query/query.h"

/* If a run has more notable events, the report shows the last ones of each kind. */
#define EVENTS_MAX 40

/* Limits the memory for storms of very many programs. */
#define STORM_ROWS_MAX 1000

/* Long enough to show rising memory, even at the interval of a daemon. */
#define LAST_MEMORY_SECONDS 30
#define LAST_MEMORY_POINTS  8

#define RUNS_WITHIN_MAX 20
/* Enough runs to show what is usual, few enough to read quickly. */
#define EARLIER_RUNS_MAX 50

#define MACHINE_EVENTS_MAX    30
#define MACHINE_OOM_KILLS_MAX 20
#define MACHINE_JOBS_MAX      50
#define MACHINE_PROCESSES_TOP 10

/* ---- notable events ---- */

static int compare_times(const void *a, const void *b)
{
    const struct process_event *left = a, *right = b;
    return (left->timestamp > right->timestamp) - (left->timestamp < right->timestamp);
}

/* Reads each kind separately, so that a thousand failed exits, which are normal in shell scripts,
 * do not hide one kill. */
static int read_each_kind(struct store_reader *reader, const char *run_id, struct arena *arena,
                          struct process_event_list *ret)
{
    static const enum event_type kinds[] = {EVENT_OOM, EVENT_KILL, EVENT_SIGNAL, EVENT_EXIT};
    struct event_filter filter = EVENT_FILTER_ALL;

    filter.run_id = run_id;
    filter.only_notable = true;
    filter.limit = EVENTS_MAX / ARRAY_SIZE(kinds);
    *ret =
        (struct process_event_list){.items = arena_alloc(arena, EVENTS_MAX * sizeof(*ret->items))};
    if (!ret->items)
        return -ENOMEM;
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        struct process_event_list some = {0};
        filter.event_types = EVENT_TYPE_BIT(kinds[i]);
        int r = store_read_events(reader, &filter, arena, &some);
        if (r < 0)
            return r;
        for (size_t k = 0; k < some.count; k++)
            ret->items[ret->count++] = some.items[k];
    }
    qsort(ret->items, ret->count, sizeof(*ret->items), compare_times);
    return 0;
}

/* The number of notable events according to the profile. Events that it does not count have not
 * happened. */
static int64_t count_notable(const struct job_profile *profile)
{
    const int64_t counts[] = {profile->failed_exit_count, profile->kill_count,
                              profile->signal_count, profile->oom_count};
    int64_t sum = 0;

    for (size_t i = 0; i < ARRAY_SIZE(counts); i++)
        if (counts[i] > 0 && __builtin_add_overflow(sum, counts[i], &sum))
            return INT_UNKNOWN;
    return sum;
}

static int read_notable(struct store_reader *reader, struct arena *arena, struct job_report *report)
{
    struct process_event_list *events = &report->events;
    struct event_filter filter = EVENT_FILTER_ALL;

    filter.run_id = report->job.run_id;
    filter.only_notable = true;
    filter.limit = EVENTS_MAX + 1;
    int r = store_read_events(reader, &filter, arena, events);
    bool has_more = r == 0 && events->count > EVENTS_MAX;
    if (has_more)
        r = read_each_kind(reader, filter.run_id, arena, events);
    if (r < 0)
        return r;

    int64_t more = count_notable(&report->job.profile);
    for (size_t i = 0; i < events->count && more > 0; i++)
        if (__builtin_sub_overflow(more, event_count(&events->items[i]), &more))
            more = 0;
    report->events_left_out = more > 0 ? more : has_more ? INT_UNKNOWN : 0;
    return 0;
}

/* ---- storms ---- */

static int read_storms(struct store_reader *reader, const char *run_id, struct arena *arena,
                       struct process_event_list *ret)
{
    struct event_filter filter = EVENT_FILTER_ALL;

    filter.run_id = run_id;
    filter.only_folded = true;
    filter.limit = STORM_ROWS_MAX;
    return store_read_events(reader, &filter, arena, ret);
}

/* ---- the last memory ---- */

/* Keeps `wanted` points at even distances; the last point always stays. */
static void reduce_points(struct memory_point_list *points, size_t wanted)
{
    size_t count = points->count;

    if (count <= wanted)
        return;
    for (size_t i = 0; i < wanted; i++)
        points->items[i] = points->items[(i + 1) * count / wanted - 1];
    points->count = wanted;
}

static int read_last_memory(struct store_reader *reader, const struct job *job, struct arena *arena,
                            struct memory_point_list *ret)
{
    bool is_dead = job->outcome == OUTCOME_FAILURE || job->outcome == OUTCOME_UNKNOWN;

    if (!is_dead || !real_is_known(job->ended_at))
        return 0;
    int r = store_read_memory(reader, job->run_id, job->ended_at - LAST_MEMORY_SECONDS,
                              job->ended_at, arena, ret);
    if (r < 0)
        return r;
    while (ret->count && !(ret->items[ret->count - 1].rss_mb > 0)) /* after its last process */
        ret->count--;
    reduce_points(ret, LAST_MEMORY_POINTS);
    return r;
}

/* ---- one run ---- */

static int read_runs_within(struct store_reader *reader, const struct job *job, int64_t viewer,
                            double now, struct arena *arena, struct job_list *ret)
{
    struct job_filter filter = JOB_FILTER_ALL;

    filter.parent_run_id = job->run_id;
    filter.uid = viewer;
    filter.limit = RUNS_WITHIN_MAX;
    return query_jobs(reader, &filter, now, arena, ret);
}

/* Reads the same number of each outcome, so that a type that has failed for long is still compared
 * with its successful runs. */
static int read_earlier_runs(struct store_reader *reader, const struct job *job,
                             struct arena *arena, struct earlier_runs *ret)
{
    static const int outcomes[] = {OUTCOME_SUCCESS, OUTCOME_FAILURE};
    struct job_filter filter = JOB_FILTER_ALL;
    struct job_list jobs = {0};

    if (!job->job_type)
        return 0;
    jobs.items =
        arena_alloc(arena, ARRAY_SIZE(outcomes) * (EARLIER_RUNS_MAX + 1) * sizeof(*jobs.items));
    if (!jobs.items)
        return -ENOMEM;
    filter.job_type = job->job_type;
    filter.uid = job->uid; /* another user's type of that name may differ */
    filter.until = job->started_at;
    filter.limit = EARLIER_RUNS_MAX + 1; /* the run itself is one of them */
    for (size_t i = 0; i < ARRAY_SIZE(outcomes); i++) {
        struct job_list some = {0};
        filter.outcome = outcomes[i];
        int r = store_read_jobs(reader, &filter, arena, &some);
        if (r < 0)
            return r;
        for (size_t k = 0; k < some.count; k++)
            jobs.items[jobs.count++] = some.items[k];
    }
    return earlier_runs_make(&jobs, job, arena, ret);
}

int query_job_report(struct store_reader *reader, const char *name, int64_t viewer, double now,
                     struct arena *arena, struct job_report *ret)
{
    struct job_report report;

    record_init(&job_report_record, &report);
    report.as_of = now;
    int r = query_job(reader, name, now, arena, &report.job);
    if (r < 0)
        return r;
    const struct job *job = &report.job;

    r = store_read_sheets(reader, job->run_id, arena, &report.sheets);
    if (r == 0)
        r = read_runs_within(reader, job, viewer, now, arena, &report.runs_within);
    if (r == 0)
        r = read_notable(reader, arena, &report);
    if (r == 0)
        r = read_storms(reader, job->run_id, arena, &report.storms);
    if (r == 0)
        r = read_last_memory(reader, job, arena, &report.last_memory);
    if (r == 0)
        r = store_read_anomalies(reader, job->run_id, REAL_UNKNOWN, REAL_UNKNOWN, arena,
                                 &report.anomalies);
    if (r == 0)
        r = store_read_gaps(reader, job->run_id, REAL_UNKNOWN, REAL_UNKNOWN, arena, &report.gaps);
    if (r == 0)
        r = read_earlier_runs(reader, job, arena, &report.earlier_runs);
    if (r == 0)
        *ret = report;
    return r;
}

/* ---- the machine ---- */

/* Requests one job more than needed, to detect that there are more. */
static int read_jobs_within(struct store_reader *reader, struct arena *arena,
                            struct machine_report *report)
{
    struct job_filter filter = JOB_FILTER_ALL;

    filter.since = report->since;
    filter.until = report->until;
    filter.limit = MACHINE_JOBS_MAX + 1;
    int r = query_jobs(reader, &filter, report->as_of, arena, &report->jobs);
    if (r < 0)
        return r;
    report->jobs_left_out = report->jobs.count > MACHINE_JOBS_MAX ? INT_UNKNOWN : 0;
    report->jobs.count = MIN(report->jobs.count, (size_t)MACHINE_JOBS_MAX);
    return 0;
}

/* Reads OOM kills separately, so that other events do not hide them. */
static int read_oom_kills(struct store_reader *reader, struct arena *arena,
                          struct machine_report *report)
{
    struct event_filter filter = EVENT_FILTER_ALL;

    filter.since = report->since;
    filter.until = report->until;
    filter.event_types = EVENT_TYPE_BIT(EVENT_OOM);
    filter.limit = MACHINE_OOM_KILLS_MAX;
    return store_read_events(reader, &filter, arena, &report->oom_kills);
}

static int read_events_within(struct store_reader *reader, struct arena *arena,
                              struct machine_report *report)
{
    struct event_filter filter = EVENT_FILTER_ALL;
    struct process_event_list *events = &report->events;

    filter.since = report->since;
    filter.until = report->until;
    filter.only_notable = true;
    filter.limit = MACHINE_EVENTS_MAX + 1;
    int r = store_read_events(reader, &filter, arena, events);
    if (r < 0)
        return r;
    report->events_left_out = 0;
    if (events->count > MACHINE_EVENTS_MAX) {
        report->events_left_out = INT_UNKNOWN;
        events->items += events->count - MACHINE_EVENTS_MAX;
        events->count = MACHINE_EVENTS_MAX;
    }
    return 0;
}

int query_machine_report(struct store_reader *reader, double since, double until, double now,
                         struct arena *arena, struct machine_report *ret)
{
    struct machine_report report;

    record_init(&machine_report_record, &report);
    report.as_of = now;
    report.since = since;
    report.until = until = fmin(until, now);
    int r = store_read_machine(reader, since, until, MACHINE_PROCESSES_TOP, arena, &report.use);
    if (r == 0)
        r = read_jobs_within(reader, arena, &report);
    if (r == 0)
        r = read_events_within(reader, arena, &report);
    if (r == 0)
        r = read_oom_kills(reader, arena, &report);
    if (r == 0)
        r = store_read_anomalies(reader, NULL, since, until, arena, &report.anomalies);
    if (r == 0)
        r = store_read_gaps(reader, NULL, since, until, arena, &report.gaps);
    if (r == 0)
        *ret = report;
    return r;
}
