#include "client/foreign-runs.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/macros.h"

/* More runs at once come from a loop of short commands. */
#define RUNS_MAX 200
/* A live writer has written within this time. */
#define RECENT_SECONDS 5.0
#define MARKS_MAX      10000

void foreign_runs_init(struct foreign_runs *runs, const char *database_path)
{
    *runs =
        (struct foreign_runs){.database_path = database_path, .began = ns_to_sec(clock_real_ns())};
}

void foreign_runs_done(struct foreign_runs *runs)
{
    store_reader_close(TAKE_PTR(runs->reader));
}

static bool has_run(const struct job_list *jobs, const char *run_id)
{
    for (size_t i = 0; i < jobs->count; i++)
        if (strcmp(jobs->items[i].run_id, run_id) == 0)
            return true;
    return false;
}

static void report_run(const struct foreign_runs *runs, const struct job *job, bool is_end)
{
    if (runs->on_job && (is_end ? job->ended_at : job->started_at) >= runs->began)
        runs->on_job(runs->context, job, is_end);
}

/* ---- finished runs ---- */

/* Whether the run has ended. Reads its row, because the list of running jobs is limited. After a
 * read error the run counts as running until the next search. */
static bool is_over(struct foreign_runs *runs, const char *run_id)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct job job;

    int r = store_find_job(runs->reader, run_id, &arena, &job);
    if (r < 0)
        return r == -ENOENT;
    if (job.outcome == OUTCOME_RUNNING)
        return false;
    report_run(runs, &job, true);
    return true;
}

static bool end_finished_runs(struct foreign_runs *runs, const struct job_list *jobs,
                              struct engine *engine, struct registry *registry)
{
    struct run *run = registry_next_run(registry, NULL), *next;
    bool has_changed = false;

    for (; run; run = next) {
        next = registry_next_run(registry, run);
        if (run->origin != RUN_REGISTERED || has_run(jobs, run->run_id) ||
            !is_over(runs, run->run_id))
            continue;
        engine_end_run(engine, run);
        has_changed = true;
    }
    return has_changed;
}

/* ---- new runs ---- */

static int add_runs(const struct foreign_runs *runs, const struct job_list *jobs,
                    struct registry *registry, size_t *ret_added)
{
    size_t added = 0;

    /* The oldest first, because it may be the parent of others. */
    for (size_t i = jobs->count; i > 0; i--) {
        const struct job *job = &jobs->items[i - 1];
        struct run *run = NULL;
        if (registry_find_run(registry, job->run_id))
            continue;
        const struct run_options options = {
            .run_id = job->run_id,
            .job_id = job->job_id,
            .uid = job->uid,
            .origin = RUN_REGISTERED,
            .parent = job->parent_run_id ? registry_find_run(registry, job->parent_run_id) : NULL,
        };
        int r = registry_add_run(registry, &options, &run);
        if (r < 0)
            return r;
        run->total_sheets = job->total_sheets;
        report_run(runs, job, false);
        added++;
    }
    *ret_added = added;
    return 0;
}

static int compare_start(const void *a, const void *b)
{
    const struct process_metric *left = a, *right = b;

    return (left->start_ticks > right->start_ticks) - (left->start_ticks < right->start_ticks);
}

/* Adopts the processes of a writer's latest snapshot, parents before their children. */
static int adopt_processes(struct snapshot *snapshot, struct registry *registry)
{
    struct process_list *processes = &snapshot->processes;

    qsort(processes->items, processes->count, sizeof(*processes->items), compare_start);
    for (size_t i = 0; i < processes->count; i++) {
        const struct process_metric *process = &processes->items[i];
        struct run *run = process->run_id ? registry_find_run(registry, process->run_id) : NULL;
        if (!run || registry_find(registry, (pid_t)process->pid))
            continue;
        int r = registry_adopt(registry, run, process->sheet_num, (pid_t)process->pid,
                               process->start_ticks);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Whether the same writer has a later mark. */
static bool is_latest(const struct snapshot_mark_list *marks, size_t index)
{
    for (size_t i = index + 1; i < marks->count; i++)
        if (marks->items[i].session == marks->items[index].session)
            return false;
    return true;
}

static int find_processes(struct foreign_runs *runs, struct arena *arena, struct registry *registry)
{
    double since = ns_to_sec(clock_real_ns()) - RECENT_SECONDS;
    struct snapshot_mark_list marks;

    int r = store_read_marks(runs->reader, since, MARKS_MAX, arena, &marks);
    for (size_t i = 0; r == 0 && i < marks.count; i++) {
        _cleanup_(snapshot_freep) struct snapshot *snapshot = NULL;
        if (!is_latest(&marks, i))
            continue;
        r = store_read_snapshot(runs->reader, marks.items[i].id, &snapshot);
        if (r == 0)
            r = adopt_processes(snapshot, registry);
    }
    return r;
}

/* A run without a stored snapshot gets its processes at the next search. */
static bool lacks_processes(const struct registry *registry)
{
    const struct run *run = NULL;

    while ((run = registry_next_run(registry, run)))
        if (run->origin == RUN_REGISTERED && !run->members)
            return true;
    return false;
}

static int update(struct foreign_runs *runs, struct engine *engine, struct registry *registry,
                  bool *ret_has_changed)
{
    const struct job_filter running = {.since = REAL_UNKNOWN,
                                       .until = REAL_UNKNOWN,
                                       .outcome = OUTCOME_RUNNING,
                                       .uid = INT_UNKNOWN,
                                       .limit = RUNS_MAX};
    _cleanup_(arena_done) struct arena arena = {0};
    struct store_error error;
    struct job_list jobs;
    size_t added = 0;

    if (!runs->database_path)
        return 0;
    int r = runs->reader ? 0 : store_reader_open(runs->database_path, &runs->reader, &error);
    if (r == 0)
        r = store_read_jobs(runs->reader, &running, &arena, &jobs);
    if (r < 0)
        return r;
    *ret_has_changed = end_finished_runs(runs, &jobs, engine, registry);
    r = add_runs(runs, &jobs, registry, &added);
    if (r == 0 && lacks_processes(registry))
        r = find_processes(runs, &arena, registry);
    *ret_has_changed |= added > 0;
    return r;
}

bool foreign_runs_update(struct foreign_runs *runs, struct engine *engine,
                         struct registry *registry)
{
    bool has_changed = false;

    int r = update(runs, engine, registry, &has_changed);
    if (r < 0) /* the database may have been replaced, or does not exist yet */
        store_reader_close(TAKE_PTR(runs->reader));
    return has_changed;
}
