#include "daemon/adoption.h"

#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "config/paths.h"
#include "daemon/daemon-state.h"
#include "model/redact.h"
#include "probe/process-lookup.h"

/* How long to wait for the writer to open the database. */
#define OPEN_WAIT_NS (5 * NS_PER_SEC)

/* Whether the process with this identity is alive, and not a zombie. */
static bool is_alive(const struct last_seen *seen)
{
    struct proc_stat stat;

    return process_lookup_stat(PROC_ROOT, (pid_t)seen->pid, &stat) == 0 &&
           stat.start_ticks == seen->start_ticks && stat.state != 'Z';
}

static bool has_living(const struct orphaned_run *orphan)
{
    for (size_t i = 0; i < orphan->processes.count; i++)
        if (is_alive(&orphan->processes.items[i]))
            return true;
    return false;
}

/* The oldest process of a run or step if it is alive, else 0. */
static pid_t find_first(const struct orphaned_run *orphan, int64_t sheet_num, bool is_of_sheet)
{
    const struct last_seen *first = NULL;

    for (size_t i = 0; i < orphan->processes.count; i++) {
        const struct last_seen *seen = &orphan->processes.items[i];
        if (is_of_sheet && seen->sheet_num != sheet_num)
            continue;
        if (!first || seen->start_ticks < first->start_ticks)
            first = seen;
    }
    return first && is_alive(first) ? (pid_t)first->pid : 0;
}

/* The step that began last, or INT_UNKNOWN. */
static int64_t find_current(const struct sheet_list *sheets)
{
    const struct sheet *current = NULL;

    for (size_t i = 0; i < sheets->count; i++)
        if (!current || sheets->items[i].started_at >= current->started_at)
            current = &sheets->items[i];
    return current ? current->sheet_num : INT_UNKNOWN;
}

static int adopt_processes(struct daemon *daemon, const struct orphaned_run *orphan,
                           struct run *run)
{
    int r = 0;

    for (size_t i = 0; i < orphan->sheets.count && r == 0; i++) {
        int64_t sheet_num = orphan->sheets.items[i].sheet_num;
        r = registry_begin_sheet(daemon->registry, run, sheet_num,
                                 find_first(orphan, sheet_num, true));
    }
    for (size_t i = 0; i < orphan->processes.count && r == 0; i++) {
        const struct last_seen *seen = &orphan->processes.items[i];
        if (is_alive(seen))
            r = registry_adopt(daemon->registry, run, seen->sheet_num, (pid_t)seen->pid,
                               seen->start_ticks);
    }
    run->current_sheet = find_current(&orphan->sheets);
    /* The run ends with the outcome of its first process, unless a client reports its end. */
    run->root_pid = find_first(orphan, INT_UNKNOWN, false);
    return r;
}

/* The scheduler that reported the run may be gone as well, so the run has no owner until it is
 * reported again. */
static int adopt(struct daemon *daemon, const struct orphaned_run *orphan)
{
    const struct job *job = &orphan->job;
    const struct job_start start = {
        .run_id = job->run_id,
        .job_id = job->job_id,
        .job_type = job->job_type,
        .command = job->command,
        .cwd = job->cwd,
        .uid = job->uid,
        .started_at = job->started_at,
        .total_sheets = job->total_sheets,
        .origin = RUN_BY_RULE, /* it ends with its processes, unless it is reported again */
        .is_adopted = true,
        .parent =
            job->parent_run_id ? registry_find_run(daemon->registry, job->parent_run_id) : NULL,
    };
    struct run *run;

    if (registry_find_run(daemon->registry, job->run_id))
        return -EEXIST; /* its owner reported it again before this */
    int r = run_lifecycle_begin(daemon, &start, &run);
    return r < 0 ? r : adopt_processes(daemon, orphan, run);
}

unsigned adopt_runs(struct daemon *daemon)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct orphaned_run_list orphans = {0};
    struct store_error error = {.text = ""};
    struct store_reader *reader;
    unsigned count = 0;

    /* The writer may have to migrate an older database first. */
    if (daemon->writer)
        store_writer_wait(daemon->writer, OPEN_WAIT_NS);
    int r = daemon_reader(daemon, &reader, &error);
    if (r == -ENOENT)
        return 0;
    if (r == 0) {
        r = store_read_orphaned(reader, daemon->host, daemon->boot_id, &arena, &orphans);
        if (r < 0)
            snprintf(error.text, sizeof(error.text), "%s", store_reader_error(reader));
    }
    if (r < 0)
        log_fields(LOG_LEVEL_WARNING, "cannot search for running jobs", "cause", error.text, NULL);
    /* They come latest first. Adopts the oldest first: a run finds its parent only if that is
     * registered already. */
    for (size_t i = orphans.count; i-- > 0;) {
        struct orphaned_run *orphan = &orphans.items[i];
        /* It may have been stored with fewer words of redaction. */
        if (has_living(orphan) &&
            redact_record(&daemon->config->redact, &job_record, &arena, &orphan->job) == 0 &&
            adopt(daemon, orphan) == 0) {
            log_fields(LOG_LEVEL_INFO, "adopted a running job", "job_id", orphan->job.job_id,
                       "run_id", orphan->job.run_id, NULL);
            count++;
        }
    }
    return count;
}
