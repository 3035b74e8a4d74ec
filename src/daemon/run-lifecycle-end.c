/* The end of a run: its figures, its cause and its chain of failures. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "config/paths.h"
#include "daemon/daemon-state.h"
#include "daemon/resource-context.h"
#include "daemon/run-lifecycle-parts.h"
#include "model/cause.h"
#include "probe/host.h"

/* Whether all processes of the run had ended and were accounted for at the last snapshot, and none
 * has started since. */
static bool is_accounted(const struct daemon *daemon, const struct run *run)
{
    const struct lifecycle_entry *entry = lifecycle_find_entry(daemon, run);

    return entry && run->node.processes && entry->summed_processes == run->node.processes;
}

/* Whether the usage is complete, unless it notes that a part is missing. */
static bool usage_is_complete(const struct daemon *daemon, const struct run *run, bool was_read,
                              const struct run_usage *usage)
{
    bool is_over = is_accounted(daemon, run) && !usage->processes /* including nested runs */;

    return is_over || (was_read && engine_covers(daemon->engine, run));
}

static void add_cpu(bool is_complete, const struct run_usage *usage, struct job_profile *profile)
{
    bool is_exact = is_complete && !usage->cpu_is_incomplete && !usage->cpu_is_rounded;

    cpu_and_io_fill_times(is_exact ? &usage->accounted : &usage->largest, is_exact, profile);
}

static void add_io(bool is_complete, const struct run_usage *usage, struct job_profile *profile)
{
    bool is_exact = is_complete && run_usage_has_io(usage);

    if (host_counts_io(PROC_ROOT))
        cpu_and_io_fill_io(is_exact ? &usage->accounted : &usage->largest, is_exact, profile);
}

/* All processes together have at least as much memory as the largest had. */
static void add_sums(const struct run_usage *usage, struct job_profile *profile)
{
    struct run_exactness *exactness = &profile->exactness;
    double peak_mb = profile->peak_rss_mb;

    profile->peak_total_mb = fmax(bytes_to_mb(usage->peak_total_bytes), peak_mb);
    profile->peak_unique_min_mb = fmax(bytes_to_mb(usage->peak_unique_min_bytes), peak_mb);
    profile->peak_unique_mb =
        fmax(bytes_to_mb(usage->peak_unique_bytes), profile->peak_unique_min_mb);
    exactness->peak_total_mb = exactness->peak_unique_min_mb = exactness->peak_unique_mb = SAMPLED;
}

/* Fills in sampled figures that were not reported. */
static void add_figures(struct daemon *daemon, const struct run *run, bool was_read,
                        struct job_profile *profile)
{
    const struct run_usage *usage = engine_usage(daemon->engine, run);
    bool saw_all = engine_saw_every_process(daemon->engine);

    /* If events are missing, the store has counted those of the caller, too. */
    if (!int_is_known(profile->processes) && !run->has_unstored_events) {
        profile->processes = (int64_t)run->node.processes;
        profile->exactness.processes = saw_all && !run->misses_processes ? EXACT : LOWER_BOUND;
        if (saw_all) { /* the store counts them without those of runs in it */
            profile->failed_exit_count = (int64_t)run->node.failed;
            profile->kill_count = (int64_t)run->node.killed;
        }
    }
    if (!usage)
        return;
    bool is_complete = usage_is_complete(daemon, run, was_read, usage);
    if (!real_is_known(profile->cpu_seconds))
        add_cpu(is_complete, usage, profile);
    if (!int_is_known(profile->read_bytes) && !int_is_known(profile->write_bytes))
        add_io(is_complete, usage, profile);
    if (!real_is_known(profile->peak_rss_mb)) {
        profile->peak_rss_mb = bytes_to_mb(usage->peak_rss_bytes);
        profile->exactness.peak_rss_mb =
            was_read && engine_covers(daemon->engine, run) && run_usage_has_peak(usage)
                ? EXACT
                : LOWER_BOUND;
    }
    if (!real_is_known(profile->peak_total_mb))
        add_sums(usage, profile);
    if (!int_is_known(profile->peak_processes) && int_is_known(usage->peak_processes)) {
        profile->peak_processes = usage->peak_processes;
        profile->exactness.peak_processes = SAMPLED;
        if (int_is_known(profile->processes))
            profile->peak_processes = MIN(profile->peak_processes, profile->processes);
    }
}

/* Fills in the system calls of the run unless the caller reported better ones. Counted figures are
 * best, then those that the caller sampled. Without memory they stay unknown. */
static void add_syscalls(struct daemon *daemon, const struct run *run, struct arena *arena,
                         struct job_profile *profile)
{
    bool is_reported = profile->syscall_hotspots.items != NULL;
    bool is_counted_by_others = is_reported && profile->syscall_source != SYSCALLS_SAMPLED;
    struct run_syscalls ours;

    if (is_counted_by_others || engine_syscalls(daemon->engine, run, arena, &ours) < 0)
        return;
    if (!is_reported || ours.source == SYSCALLS_BPF || ours.source == SYSCALLS_STRACE)
        job_profile_set_syscalls(profile, &ours);
}

/* Fills in the fields that were reported at the start of the run. */
static void add_beginning(const struct run *run, const struct lifecycle_entry *entry,
                          struct job *job)
{
    job->run_id = run->run_id;
    job->job_id = run->job_id;
    job->uid = run->uid;
    if (!entry)
        return;
    job->job_type = entry->begun.job_type;
    job->command = entry->begun.command;
    job->cwd = entry->begun.cwd;
    job->host = entry->begun.host;
    job->started_at = entry->begun.started_at;
    job->total_sheets = run->total_sheets;
    job->parent_run_id = entry->begun.parent_run_id;
}

/* Ends the step that the run is, and gives it the figures of the run. */
static void end_own_sheet(struct daemon *daemon, struct run *run, int64_t sheet_num, bool was_read,
                          const struct job *job)
{
    const struct run_sheet *active = run_find_sheet(run, sheet_num);
    _cleanup_text_ struct text context = {0};
    struct run_lifecycle_step step = {.sheet_num = sheet_num,
                                      .process.pid = active ? active->pid : 0,
                                      .exit_code = job->exit_code,
                                      .at = job->ended_at,
                                      .outcome = job->outcome,
                                      .run_was_read = was_read,
                                      .context_json = &context};
    struct sheet sheet;

    if (!active)
        return;
    resource_context_write(daemon, run->uid, active->pid, active->pid != 0, &context);
    run_lifecycle_step(daemon, run, &step);
    if (!daemon->writer)
        return;
    record_init(&sheet_record, &sheet);
    sheet.run_id = run->run_id;
    sheet.sheet_num = sheet_num;
    sheet_set_figures(&sheet, &job->profile);
    store_writer_sheet(daemon->writer, &sheet); /* without memory, the sampled figures stay */
}

/* Whether a chain explains more than the status of its last process. */
static bool explains_more(const struct process_event_list *chain)
{
    const struct process_event *last = &chain->items[chain->count - 1];

    return chain->count > 1 || last->event_type == EVENT_OOM || last->details ||
           int_is_known(last->sender_pid);
}

/* Whether the chain that the daemon saw is worse than the one from the caller: shorter, or with
 * another first process. The daemon sees only a part of a run that its caller handed over late, and
 * when events are lost. */
static bool is_worse(const struct process_event_list *seen,
                     const struct process_event_list *by_parent)
{
    return seen->count < by_parent->count ||
           (by_parent->count &&
            seen->items[seen->count - 1].pid != by_parent->items[by_parent->count - 1].pid);
}

/* Copies commands that only the caller knows. The texts live as long as the request. */
static void copy_commands(struct process_event_list *seen,
                          const struct process_event_list *by_parent)
{
    for (size_t i = 0; i < seen->count; i++)
        for (size_t k = 0; k < by_parent->count && !seen->items[i].command; k++)
            if (by_parent->items[k].pid == seen->items[i].pid)
                seen->items[i].command = by_parent->items[k].command;
}

void run_lifecycle_explain(struct daemon *daemon, struct run *run, bool is_derived,
                           struct arena *arena, struct job *job)
{
    struct process_event_list chain = {0}, on_the_way = {0};
    char cause[CAUSE_MAX_BYTES + 1];

    if (job->outcome != OUTCOME_FAILURE) {
        job->chain = chain;
        return;
    }
    engine_settle(daemon->engine, run);
    engine_find_failure_chain(daemon->engine, run, 0, job->exit_code, job->signal_num, arena,
                              &chain, &on_the_way);
    bool is_from_parent = is_worse(&chain, &job->chain);
    if (!is_from_parent) {
        copy_commands(&chain, &job->chain);
        job->chain = chain;
    }
    if (is_from_parent || !chain.count)
        return;
    if (job->cause && !(is_derived && (explains_more(&chain) || on_the_way.count)))
        return;
    cause_format(&chain, &on_the_way, cause);
    const char *copy = arena_strdup(arena, cause);
    if (copy)
        job->cause = copy;
}

void run_lifecycle_finish(struct daemon *daemon, struct run *run, const struct job *reported)
{
    const struct lifecycle_entry *entry = lifecycle_find_entry(daemon, run);
    _cleanup_(arena_done) struct arena arena = {0};
    struct job job = *reported;

    engine_settle(daemon->engine, run);                        /* its events come before its end */
    bool was_read = engine_read_run(daemon->engine, run) == 0; /* else the last sample counts */
    add_beginning(run, entry, &job);
    if (!real_is_known(job.ended_at))
        job.ended_at = ns_to_sec(clock_real_ns());
    if (!real_is_known(job.profile.wall_seconds) && job.ended_at >= job.started_at)
        job.profile.wall_seconds = job.ended_at - job.started_at;
    /* If it continued an earlier part, the store has the sums. */
    if (!entry || !entry->is_continued)
        add_figures(daemon, run, was_read, &job.profile);
    if (run->has_unstored_events) /* the counts of events, which derive from this, are too low */
        job.profile.exactness.processes = LOWER_BOUND;
    add_syscalls(daemon, run, &arena, &job.profile);
    if (entry && int_is_known(entry->sheet_num))
        end_own_sheet(daemon, run, entry->sheet_num, was_read, &job);
    lifecycle_end_sheets(daemon, run, was_read);
    run->calls_are_counted = job.profile.syscall_source == SYSCALLS_BPF;
    lifecycle_publish_job(daemon, EVENT_NAME_JOB_FINISHED, run, &job);
    if (daemon->writer && store_writer_finish_job(daemon->writer, &job) < 0)
        log_fields(LOG_LEVEL_ERROR, "the end of a job is not stored: out of memory", "job_id",
                   job.job_id, NULL);
    lifecycle_forget(daemon, run);
}
