#include "daemon/run-lifecycle.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/human.h"
#include "base/json-writer.h"
#include "base/log.h"
#include "base/utf8.h"
#include "config/paths.h"
#include "daemon/context.h"
#include "daemon/manager.h"
#include "daemon/publish.h"
#include "model/cause.h"
#include "model/process.h"
#include "model/record-copy.h"
#include "model/record-json.h"
#include "probe/process-lookup.h"

/* For a scheduler whose process is not visible. */
#define SILENCE_MAX_SEC 3600

static double now_sec(void)
{
    return ns_to_sec(clock_real_ns());
}

/* ---- entries ---- */

static uint64_t key_of(const struct run *run)
{
    return (uint64_t)(uintptr_t)run;
}

static struct lifecycle_entry *find_entry(const struct daemon *daemon, const struct run *run)
{
    return map_get(&daemon->lifecycle.entries, key_of(run));
}

bool run_lifecycle_has_run_of(const struct daemon *daemon, pid_t owner_pid)
{
    size_t position = 0;

    for (struct lifecycle_entry *entry; (entry = map_next(&daemon->lifecycle.entries, &position));)
        if (entry->owner_pid == owner_pid)
            return true;
    return false;
}

static void free_entry(struct lifecycle_entry *entry)
{
    if (!entry)
        return;
    arena_done(&entry->arena);
    free(entry);
}

void run_lifecycle_done(struct run_lifecycle *lifecycle)
{
    size_t position = 0;

    for (struct lifecycle_entry *entry; (entry = map_next(&lifecycle->entries, &position));)
        free_entry(entry);
    map_done(&lifecycle->entries);
}

/* 0 if there is no such process. */
static uint64_t start_ticks_of(pid_t pid)
{
    struct proc_stat stat;

    return process_lookup_stat(PROC_ROOT, pid, &stat) == 0 ? stat.start_ticks : 0;
}

/* If that process is gone already, the run has an invisible owner. */
static void set_owner(struct lifecycle_entry *entry, pid_t owner_pid)
{
    entry->owner_start_ticks = owner_pid ? start_ticks_of(owner_pid) : 0;
    entry->owner_pid = entry->owner_start_ticks ? owner_pid : 0;
}

void run_lifecycle_set_owner(struct daemon *daemon, struct run *run, pid_t owner_pid)
{
    struct lifecycle_entry *entry = find_entry(daemon, run);

    if (entry)
        entry->reported_ns = clock_mono_ns();
    if (!entry || !entry->is_adopted)
        return;
    set_owner(entry, owner_pid);
    entry->is_adopted = false;
    run->origin = RUN_REGISTERED;
}

static int add_entry(struct daemon *daemon, const struct job_start *start, struct run *run,
                     const struct job *begun)
{
    struct lifecycle_entry *entry = calloc(1, sizeof(*entry));
    if (!entry)
        return -ENOMEM;

    *entry = (struct lifecycle_entry){.run = run,
                                      .reported_ns = clock_mono_ns(),
                                      .known_at = moment_now(),
                                      .is_adopted = start->is_adopted,
                                      .is_continued = start->is_adopted || start->is_continued,
                                      .sheet_num = INT_UNKNOWN};
    set_owner(entry, start->owner_pid);
    int r = record_copy(&job_record, begun, &entry->arena, &entry->begun);
    if (r == 0)
        r = map_put(&daemon->lifecycle.entries, key_of(run), entry);
    if (r < 0)
        free_entry(entry);
    return r;
}

double run_lifecycle_age(const struct daemon *daemon, const struct run *run)
{
    const struct lifecycle_entry *entry = find_entry(daemon, run);

    if (!entry)
        return REAL_UNKNOWN;
    struct moment now = moment_now();
    double set_clock = ns_to_sec(now.real_ns) - entry->begun.started_at;
    double steady_clock = ns_to_sec(now.boot_ns - entry->known_at.boot_ns) +
                          ns_to_sec(entry->known_at.real_ns) - entry->begun.started_at;
    return MAX(set_clock, steady_clock);
}

void run_lifecycle_is_step(struct daemon *daemon, const struct run *run, int64_t sheet_num)
{
    struct lifecycle_entry *entry = find_entry(daemon, run);

    if (entry)
        entry->sheet_num = sheet_num;
}

/* Whether a new run could be stored soon; a running one may always end. */
static bool has_room(const struct daemon *daemon)
{
    return !daemon->writer || store_writer_load(daemon->writer) != STORE_LOAD_FULL;
}

/* ---- replay ---- */

static void publish(struct daemon *daemon, const char *event, const struct run *run,
                    int64_t sheet_num, const struct text *data)
{
    if (text_error(data) == 0)
        bus_publish(daemon->bus, &(struct bus_message){.event = event,
                                                       .timestamp = now_sec(),
                                                       .job_id = run->job_id,
                                                       .sheet_num = sheet_num,
                                                       .uid = run->uid,
                                                       .data = data});
}

static void publish_job(struct daemon *daemon, const char *event, const struct run *run,
                        const struct job *job)
{
    _cleanup_text_ struct text data = {0};
    _cleanup_(arena_done) struct arena arena = {0};
    struct json_writer json = {.out = &data};
    struct job shown = *job;

    if (!bus_is_wanted(daemon->bus, event))
        return;
    publish_redact(daemon, &arena, &shown.command);
    publish_redact(daemon, &arena, &shown.cause);
    publish_redact(daemon, &arena, &shown.job_type);
    record_encode(&job_record, &shown, &json);
    publish(daemon, event, run, INT_UNKNOWN, &data);
}

void run_lifecycle_progressed(struct daemon *daemon, const struct run *run)
{
    _cleanup_text_ struct text data = {0};
    struct json_writer json = {.out = &data};
    const struct job_progress progress = {
        .job_id = run->job_id,
        .run_id = run->run_id,
        .total_sheets = run->total_sheets,
        .last_completed_sheet = run->last_completed_sheet,
        .current_sheet = run->current_sheet,
        .status = run->status[0] ? run->status : NULL,
    };

    record_encode(&job_progress_record, &progress, &json);
    publish(daemon, "job.progress", run, run->current_sheet, &data);
}

/* ---- a run begins ---- */

/* Derived from the command; only its first arguments matter. */
static const char *derive_type(const struct job_start *start, char *into, size_t size)
{
    char words[COMMAND_MAX_BYTES + 1];
    const char *argv[16] = {NULL};
    char *rest = words;

    if (!start->command)
        return NULL;
    snprintf(words, sizeof(words), "%s", start->command);
    for (size_t i = 0; i < ARRAY_SIZE(argv) - 1 && (argv[i] = strsep(&rest, " ")); i++)
        ;
    job_type_format(argv, start->cwd, into, size);
    return into;
}

static void fill_job(const struct daemon *daemon, const struct job_start *start,
                     const struct run *run, struct job *ret)
{
    record_init(&job_record, ret);
    ret->run_id = run->run_id;
    ret->job_id = run->job_id;
    ret->job_type = start->job_type;
    ret->command = start->command;
    ret->cwd = start->cwd;
    ret->uid = start->uid;
    ret->host = daemon->host;
    ret->started_at = start->started_at;
    ret->outcome = OUTCOME_RUNNING;
    ret->total_sheets = start->total_sheets;
    ret->parent_run_id = run->parent && !start->hides_parent ? run->parent->run_id : NULL;
    ret->profile.collector = daemon_collector(daemon);
}

static int keep_begin(struct daemon *daemon, const struct job_start *start, struct run *run)
{
    char type[JOB_ID_MAX_BYTES + 1];
    struct job job;

    run->total_sheets = start->total_sheets;
    fill_job(daemon, start, run, &job);
    if (!job.job_type)
        job.job_type = derive_type(start, type, sizeof(type));
    int r = add_entry(daemon, start, run, &job);
    if (r < 0)
        return r;
    if (daemon->writer)
        r = store_writer_begin_job(daemon->writer, &job);
    if (r == 0)
        publish_job(daemon, "job.started", run, &job);
    return r;
}

static void forget(struct daemon *daemon, struct run *run)
{
    free_entry(map_remove(&daemon->lifecycle.entries, key_of(run)));
    if (daemon->engine)
        engine_end_run(daemon->engine, run);
    else
        registry_end_run(daemon->registry, run);
}

/* A process in another pid namespace cannot be looked up: it counts as gone after a long silence.
 */
static bool owner_is_gone(const struct lifecycle_entry *entry)
{
    if (!entry->owner_pid)
        return clock_mono_ns() - entry->reported_ns > SILENCE_MAX_SEC * NS_PER_SEC;
    return start_ticks_of(entry->owner_pid) != entry->owner_start_ticks;
}

/* ---- callers that store events themselves ---- */

void run_lifecycle_leave_events_to_caller(struct daemon *daemon, struct run *run)
{
    daemon->lifecycle.has_stored_elsewhere = run->caller_stores_events = true;
}

bool run_lifecycle_is_stored_elsewhere(const struct daemon *daemon,
                                       const struct process_event *event)
{
    if (!daemon->lifecycle.has_stored_elsewhere || !event->run_id || !event_is_lifecycle(event))
        return false;
    const struct run *run = registry_find_run(daemon->registry, event->run_id);
    return run && run->caller_stores_events;
}

void run_lifecycle_store_again(struct daemon *daemon, const struct run *run)
{
    const struct lifecycle_entry *entry = find_entry(daemon, run);

    if (entry && daemon->writer)
        store_writer_begin_job(daemon->writer,
                               &entry->begun); /* without memory, it keeps the old one */
}

/* The caller is a process of the run, as the kernel reports it. */
static bool was_started_in(const struct daemon *daemon, const struct lifecycle_entry *entry,
                           const struct run *run)
{
    const struct member *caller =
        entry->owner_pid ? registry_find(daemon->registry, entry->owner_pid) : NULL;

    return caller && caller->run == run && !owner_is_gone(entry);
}

int run_lifecycle_find_inner(struct daemon *daemon, struct run *run)
{
    size_t position = 0;

    for (struct lifecycle_entry *entry;
         (entry = map_next(&daemon->lifecycle.entries, &position));) {
        struct run *inner = entry->run;
        bool has_closer = inner->parent && !run_is_within(run, inner->parent);

        if (inner->parent == run || has_closer || run_is_within(run, inner) ||
            !was_started_in(daemon, entry, run))
            continue;
        int r = engine_set_parent(daemon->engine, inner, run);
        if (r < 0)
            return r;
        if (inner->uid != run->uid) /* hidden from another user */
            continue;
        memcpy(entry->parent_run_id, run->run_id, sizeof(entry->parent_run_id));
        entry->begun.parent_run_id = entry->parent_run_id;
        run_lifecycle_store_again(daemon, inner); /* stored with the missing fields */
    }
    return 0;
}

void run_lifecycle_leave(struct daemon *daemon, struct run *run)
{
    run_lifecycle_leave_events_to_caller(daemon, run);
    forget(daemon, run);
}

int run_lifecycle_begin(struct daemon *daemon, const struct job_start *start, struct run **ret)
{
    char run_id[UUID_TEXT_SIZE];
    struct run_options options = {.run_id = start->run_id,
                                  .job_id = start->job_id,
                                  .uid = start->uid,
                                  .origin = start->origin,
                                  .parent = start->parent};
    struct run *run;
    int r = 0;

    if (!start->is_adopted && !has_room(daemon))
        return -ENOBUFS;
    if (!start->run_id) {
        r = uuid_make(clock_real_ns(), run_id);
        options.run_id = run_id;
    }
    if (r == 0)
        r = registry_add_run(daemon->registry, &options, &run);
    if (r < 0)
        return r;
    r = keep_begin(daemon, start, run);
    if (r < 0) {
        forget(daemon, run);
        return r;
    }
    *ret = run;
    return 0;
}

/* The command of its first process. */
void run_lifecycle_begin_found(struct daemon *daemon, struct run *run,
                               const struct process_facts *facts)
{
    char command[COMMAND_MAX_BYTES + 1];
    const struct job_start start = {
        .job_id = run->job_id,
        .command = facts->command ? command : NULL,
        .cwd = facts->cwd,
        .uid = facts->uid,
        .started_at = now_sec(),
        .total_sheets = INT_UNKNOWN,
        .origin = RUN_BY_RULE,
    };

    if (facts->command)
        utf8_clean(command, sizeof(command), facts->command, strlen(facts->command));
    keep_begin(daemon, &start, run); /* without memory, only its samples are stored */
}

/* ---- a run ends ---- */

/* Whether all of its processes had ended and were accounted for at the last snapshot, and none was
 * started since. */
static bool is_summed_up(const struct daemon *daemon, const struct run *run)
{
    const struct lifecycle_entry *entry = find_entry(daemon, run);

    return entry && run->processes && entry->summed_processes == run->processes;
}

static void add_cpu(const struct daemon *daemon, const struct run *run,
                    const struct run_usage *usage, struct job_profile *profile)
{
    bool is_exact = is_summed_up(daemon, run) && !usage->processes /* including nested runs */ &&
                    !usage->cpu_is_incomplete && !usage->cpu_is_rounded;
    const struct cpu_time *cpu = is_exact ? &usage->accounted : &usage->cpu;
    uint64_t user_ns = MIN(cpu->user_ns, cpu->total_ns);

    profile->total_cpu_seconds = ns_to_sec(cpu->total_ns);
    profile->user_seconds = ns_to_sec(user_ns);
    profile->system_seconds = ns_to_sec(cpu->total_ns - user_ns);
    profile->exactness.cpu_seconds = profile->exactness.user_seconds =
        profile->exactness.system_seconds = is_exact ? EXACT : LOWER_BOUND;
}

/* Fills in sampled figures that were not reported. */
static void add_figures(struct daemon *daemon, const struct run *run, struct job_profile *profile)
{
    const struct run_usage *usage = engine_usage(daemon->engine, run);
    bool saw_all = engine_saw_every_process(daemon->engine);

    /* If events are missing, the store has counted those of the caller, too. */
    if (!int_is_known(profile->process_spawn_count) && !run->lacks_events) {
        profile->process_spawn_count = (int64_t)run->processes;
        profile->exactness.processes = saw_all ? EXACT : LOWER_BOUND;
    }
    if (!usage)
        return;
    if (!real_is_known(profile->total_cpu_seconds))
        add_cpu(daemon, run, usage, profile);
    if (!real_is_known(profile->peak_rss_mb)) {
        profile->peak_rss_mb = bytes_to_mb(usage->peak_rss_bytes);
        profile->exactness.peak_rss_mb = LOWER_BOUND;
    }
    if (!real_is_known(profile->peak_total_mb)) {
        profile->peak_total_mb = bytes_to_mb(usage->peak_total_bytes);
        profile->peak_unique_mb = bytes_to_mb(usage->peak_unique_bytes);
        profile->exactness.peak_total_mb = profile->exactness.peak_unique_mb = SAMPLED;
    }
}

/* Fills in its system calls if better ones were not reported: counted ones come first, then those
 * that its parent sampled. Without memory they are unknown. */
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

static void store_sheet(struct daemon *daemon, const struct run *run, int64_t sheet_num,
                        const char *name, int outcome, bool is_reported)
{
    struct sheet sheet;

    if (!daemon->writer)
        return;
    record_init(&sheet_record, &sheet);
    sheet.run_id = run->run_id;
    sheet.sheet_num = sheet_num;
    sheet.name = name;
    sheet.outcome = outcome;
    if (outcome != OUTCOME_RUNNING)
        sheet.ended_at = now_sec();
    else if (!is_reported)
        sheet.started_at = now_sec();
    store_writer_sheet(daemon->writer, &sheet); /* without memory, the step ends with its run */
}

/* The fields that were reported at its start. */
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

/* For a run that is a step: the step gets the figures of the run. */
static void end_own_sheet(struct daemon *daemon, struct run *run, int64_t sheet_num,
                          const struct job *job)
{
    const struct run_sheet *active = run_find_sheet(run, sheet_num);
    _cleanup_text_ struct text context = {0};
    struct run_lifecycle_step step = {.sheet_num = sheet_num,
                                      .process.pid = active ? active->pid : 0,
                                      .exit_code = job->exit_code,
                                      .outcome = job->outcome,
                                      .context_json = &context};
    struct sheet sheet;

    if (!active)
        return;
    context_write(daemon, run->uid, active->pid, active->pid != 0, &context);
    run_lifecycle_step(daemon, run, &step);
    if (!daemon->writer)
        return;
    record_init(&sheet_record, &sheet);
    sheet.run_id = run->run_id;
    sheet.sheet_num = sheet_num;
    sheet.peak_rss_mb = job->profile.peak_rss_mb;
    sheet.max_cpu_pct = job->profile.max_cpu_pct;
    sheet.cpu_seconds = job->profile.total_cpu_seconds;
    store_writer_sheet(daemon->writer, &sheet); /* without memory, the sampled figures stay */
}

/* Whether a chain explains more than the status of its last process. */
static bool explains_more(const struct process_event_list *chain)
{
    const struct process_event *last = &chain->items[chain->count - 1];

    return chain->count > 1 || last->event_type == EVENT_OOM || last->details ||
           int_is_known(last->sender_pid);
}

/* If its parent handed the run over, or events were lost, the daemon has seen only a part of it, or
 * another first process. */
static bool is_worse(const struct process_event_list *seen,
                     const struct process_event_list *by_parent)
{
    return seen->count < by_parent->count ||
           (by_parent->count &&
            seen->items[seen->count - 1].pid != by_parent->items[by_parent->count - 1].pid);
}

/* The parent may know commands that the daemon has not seen. The texts live as long as the request.
 */
static void take_names(struct process_event_list *seen, const struct process_event_list *by_parent)
{
    for (size_t i = 0; i < seen->count; i++)
        for (size_t k = 0; k < by_parent->count && !seen->items[i].command; k++)
            if (by_parent->items[k].pid == seen->items[i].pid)
                seen->items[i].command = by_parent->items[k].command;
}

void run_lifecycle_explain(struct daemon *daemon, struct run *run, bool is_derived,
                           struct arena *arena, struct job *job)
{
    struct process_event_list chain = {0};
    char cause[CAUSE_MAX_BYTES + 1];

    if (job->outcome != OUTCOME_FAILURE) {
        job->chain = chain;
        return;
    }
    engine_settle(daemon->engine, run);
    engine_find_failure_chain(daemon->engine, run, 0, job->exit_code, job->signal_num, arena,
                              &chain);
    bool is_from_parent = is_worse(&chain, &job->chain);
    if (!is_from_parent) {
        take_names(&chain, &job->chain);
        job->chain = chain;
    }
    publish_redact_events(daemon, arena, &job->chain); /* the published cause derives from it */
    if (is_from_parent || !chain.count)
        return;
    if (job->cause && !(is_derived && explains_more(&chain)))
        return;
    cause_format(&chain, cause);
    const char *words = arena_strdup(arena, cause);
    if (words)
        job->cause = words;
}

void run_lifecycle_finish(struct daemon *daemon, struct run *run, const struct job *reported)
{
    const struct lifecycle_entry *entry = find_entry(daemon, run);
    _cleanup_(arena_done) struct arena arena = {0};
    struct job job = *reported;

    engine_settle(daemon->engine, run); /* its events come before its end */
    add_beginning(run, entry, &job);
    if (!real_is_known(job.ended_at))
        job.ended_at = now_sec();
    if (!real_is_known(job.profile.wall_seconds) && job.ended_at >= job.started_at)
        job.profile.wall_seconds = job.ended_at - job.started_at;
    /* If it continued an earlier part, the store has the sums. */
    if (!entry || !entry->is_continued)
        add_figures(daemon, run, &job.profile);
    if (run->lacks_events) /* the counts of events, which derive from this, are too low */
        job.profile.exactness.processes = LOWER_BOUND;
    add_syscalls(daemon, run, &arena, &job.profile);
    if (entry && int_is_known(entry->sheet_num))
        end_own_sheet(daemon, run, entry->sheet_num, &job);
    run->calls_are_counted = job.profile.syscall_source == SYSCALLS_BPF;
    publish_job(daemon, "job.finished", run, &job);
    if (daemon->writer && store_writer_finish_job(daemon->writer, &job) < 0)
        log_fields(LOG_LEVEL_ERROR, "the end of a job is not stored: out of memory", "job_id",
                   job.job_id, NULL);
    forget(daemon, run);
}

/* The outcome of its first process, if its end was seen. The reported outcome of an adopted run is
 * unknown. */
static void finish_by_root(struct daemon *daemon, struct run *run)
{
    const struct lifecycle_entry *entry = find_entry(daemon, run);
    _cleanup_(arena_done) struct arena arena = {0};
    char cause[64] = "lost";
    struct human name;
    struct job job;

    engine_settle(daemon->engine, run); /* its end may be pending */
    record_init(&job_record, &job);
    job.outcome = OUTCOME_UNKNOWN;
    if (run->root_has_ended && WIFSIGNALED(run->root_wait_status)) {
        job.outcome = OUTCOME_FAILURE;
        job.signal_num = WTERMSIG(run->root_wait_status);
        snprintf(cause, sizeof(cause), "killed by %s",
                 human_signal(&name, WTERMSIG(run->root_wait_status)));
    } else if (run->root_has_ended) {
        job.exit_code = WEXITSTATUS(run->root_wait_status);
        job.outcome = job.exit_code ? OUTCOME_FAILURE : OUTCOME_SUCCESS;
        snprintf(cause, sizeof(cause), "exit status %d", (int)job.exit_code);
    } else if (run->origin == RUN_BY_RULE && !(entry && entry->is_adopted)) {
        snprintf(cause, sizeof(cause), "ended; its exit status was not seen");
    }
    job.cause = job.outcome == OUTCOME_SUCCESS ? NULL : cause;
    if (entry && entry->is_adopted && run->empty_since_ns)
        job.ended_at = now_sec() - ns_to_sec(clock_mono_ns() - run->empty_since_ns);
    run_lifecycle_explain(daemon, run, true, &arena, &job);
    run_lifecycle_finish(daemon, run, &job);
}

void run_lifecycle_end_found(struct daemon *daemon, struct run *run)
{
    finish_by_root(daemon, run);
}

/* No client will report its end. An adopted run may have a scheduler that has not reported since
 * the restart: like a run found by a rule, it stays open for a while after its last process. */
static bool is_left_alone(const struct run *run, const struct lifecycle_entry *entry)
{
    return run->origin == RUN_REGISTERED && owner_is_gone(entry);
}

void run_lifecycle_sweep(struct daemon *daemon)
{
    for (struct run *run = registry_next_run(daemon->registry, NULL), *next; run; run = next) {
        struct lifecycle_entry *entry = find_entry(daemon, run);

        next = registry_next_run(daemon->registry, run);
        if (!entry)
            continue;
        entry->summed_processes = run->members ? 0 : run->processes;
        run->lacks_events |= entry->has_lost_caller; /* its end would have been received by now */
        if (run->caller_stores_events && owner_is_gone(entry)) {
            run->caller_stores_events = false;
            entry->has_lost_caller = true;
            run_lifecycle_store_again(daemon,
                                      run); /* its counts continue from what the caller stored */
        }
        bool was_left_alone = entry->was_left_alone;
        entry->was_left_alone = !run->living && is_left_alone(run, entry);
        /* The last message of its parent may be pending: the loop reads it before the next sweep.
         */
        if (was_left_alone && entry->was_left_alone)
            finish_by_root(daemon, run);
    }
}

/* ---- steps ---- */

static const char *step_event(int outcome)
{
    switch (outcome) {
    case OUTCOME_RUNNING: return "sheet.started";
    case OUTCOME_SUCCESS: return "sheet.completed";
    default: return "sheet.failed";
    }
}

static void publish_step(struct daemon *daemon, const struct run *run,
                         const struct run_lifecycle_step *step)
{
    _cleanup_text_ struct text data = {0};
    struct json_writer json = {.out = &data};

    json_write_begin_object(&json);
    json_write_key(&json, "run_id");
    json_write_string(&json, run->run_id);
    json_write_key(&json, "name");
    json_write_string(&json, step->name);
    json_write_key(&json, "pid");
    if (step->process.pid)
        json_write_int(&json, step->process.pid);
    else
        json_write_null(&json);
    json_write_key(&json, "exit_code");
    if (int_is_known(step->exit_code))
        json_write_int(&json, step->exit_code);
    else
        json_write_null(&json);
    json_write_key(&json, "resource_context");
    text_append_string(&data, text_string(step->context_json));
    text_append_char(&data, '}');
    publish(daemon, step_event(step->outcome), run, step->sheet_num, &data);
}

static void note_progress(struct run *run, const struct run_lifecycle_step *step)
{
    if (step->outcome == OUTCOME_RUNNING) {
        run->current_sheet = step->sheet_num;
        return;
    }
    if (run->current_sheet == step->sheet_num)
        run->current_sheet = INT_UNKNOWN;
    if (step->outcome == OUTCOME_SUCCESS &&
        (!int_is_known(run->last_completed_sheet) || run->last_completed_sheet < step->sheet_num))
        run->last_completed_sheet = step->sheet_num;
}

int run_lifecycle_step(struct daemon *daemon, struct run *run,
                       const struct run_lifecycle_step *step)
{
    bool is_begin = step->outcome == OUTCOME_RUNNING;
    bool was_active = run_find_sheet(run, step->sheet_num);
    char details[64];

    if (is_begin) {
        if (!has_room(daemon))
            return -ENOBUFS;
        int r = run_begin_sheet(run, step->sheet_num, step->process.pid);
        if (r == 0 && step->process.pid)
            r = engine_register(daemon->engine, run, step->sheet_num, step->process, step->replay);
        if (r < 0)
            return r;
    }
    store_sheet(daemon, run, step->sheet_num, step->name, step->outcome, was_active);
    if (is_begin && was_active) /* reported again, with its process or its name */
        return 0;
    snprintf(details, sizeof(details), "Sheet %lld %s", (long long)step->sheet_num,
             strchr(step_event(step->outcome), '.') + 1);
    engine_report_step(daemon->engine, run, step->sheet_num, is_begin ? EVENT_SPAWN : EVENT_EXIT,
                       step->process.pid, step->exit_code, details);
    if (!is_begin)
        run_end_sheet(run, step->sheet_num);
    note_progress(run, step);
    publish_step(daemon, run, step);
    return 0;
}
