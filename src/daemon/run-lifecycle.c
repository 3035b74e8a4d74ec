/* Entries, the start of runs, and the sweep that ends runs without an owner. run-lifecycle-end.c
 * has the end of a run, run-lifecycle-step.c its steps. */
#include "daemon/run-lifecycle.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/human.h"
#include "base/json-writer.h"
#include "base/utf8.h"
#include "config/paths.h"
#include "daemon/daemon-state.h"
#include "daemon/run-lifecycle-parts.h"
#include "model/process.h"
#include "model/record-copy.h"
#include "model/record-json.h"
#include "model/redact.h"
#include "probe/process-lookup.h"

/* A scheduler whose process is not visible counts as gone after this time without a report. */
#define SILENCE_MAX_SEC 3600

/* ---- entries ---- */

static uint64_t key_of(const struct run *run)
{
    return (uint64_t)(uintptr_t)run;
}

struct lifecycle_entry *lifecycle_find_entry(const struct daemon *daemon, const struct run *run)
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

/* If that process is gone already, the owner counts as not visible. */
static void set_owner(struct lifecycle_entry *entry, pid_t owner_pid)
{
    entry->owner_start_ticks = owner_pid ? start_ticks_of(owner_pid) : 0;
    entry->owner_pid = entry->owner_start_ticks ? owner_pid : 0;
}

void run_lifecycle_set_owner(struct daemon *daemon, struct run *run, pid_t owner_pid)
{
    struct lifecycle_entry *entry = lifecycle_find_entry(daemon, run);

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
    const struct lifecycle_entry *entry = lifecycle_find_entry(daemon, run);

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
    struct lifecycle_entry *entry = lifecycle_find_entry(daemon, run);

    if (entry)
        entry->sheet_num = sheet_num;
}

bool lifecycle_has_room(const struct daemon *daemon)
{
    return !daemon->writer || store_writer_load(daemon->writer) != STORE_LOAD_FULL;
}

/* A run keeps no command line as it was read: other words can only hide more of it. Without memory
 * a text becomes unknown. */
void run_lifecycle_redact(struct daemon *daemon, const struct text_list *words)
{
    struct run *run = NULL;
    size_t position = 0;

    for (struct lifecycle_entry *entry; (entry = map_next(&daemon->lifecycle.entries, &position));)
        redact_record(words, &job_record, &entry->arena, &entry->begun);
    while ((run = registry_next_run(daemon->registry, run)))
        redact_buffer(words, run->status, sizeof(run->status));
}

/* ---- publishing ---- */

void lifecycle_publish(struct daemon *daemon, enum event_name event, const struct run *run,
                       int64_t sheet_num, const struct text *data)
{
    if (text_error(data) == 0)
        bus_publish(daemon->bus, &(struct bus_message){.event = event_name_text(event),
                                                       .timestamp = ns_to_sec(clock_real_ns()),
                                                       .job_id = run->job_id,
                                                       .sheet_num = sheet_num,
                                                       .uid = run->uid,
                                                       .data = data});
}

void lifecycle_publish_job(struct daemon *daemon, enum event_name event, const struct run *run,
                           const struct job *job)
{
    _cleanup_text_ struct text data = {0};
    struct json_writer json = {.out = &data};

    if (!bus_is_wanted(daemon->bus, event_name_text(event)))
        return;
    record_encode(&job_record, job, &json);
    lifecycle_publish(daemon, event, run, INT_UNKNOWN, &data);
}

/* ---- a run begins ---- */

/* Derives the job type from the first arguments of the command and the working directory. They are
 * redacted, but the last part of a path may show a secret that the whole path did not. */
static const char *derive_type(const struct job_start *start, const struct text_list *words,
                               char *into, size_t size)
{
    char command[COMMAND_MAX_BYTES + 1];
    const char *argv[16] = {NULL};
    char *rest = command;

    if (!start->command)
        return NULL;
    snprintf(command, sizeof(command), "%s", start->command);
    for (size_t i = 0; i < ARRAY_SIZE(argv) - 1 && (argv[i] = strsep(&rest, " ")); i++)
        ;
    job_type_format(argv, start->cwd, into, size);
    redact_buffer(words, into, size);
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

/* Stores and publishes the start of a run. */
static int store_begin(struct daemon *daemon, const struct job_start *start, struct run *run)
{
    char type[JOB_ID_MAX_BYTES + 1];
    struct job job;

    run->total_sheets = start->total_sheets;
    fill_job(daemon, start, run, &job);
    if (!job.job_type)
        job.job_type = derive_type(start, &daemon->config->redact, type, sizeof(type));
    int r = add_entry(daemon, start, run, &job);
    if (r < 0)
        return r;
    if (daemon->writer)
        r = store_writer_begin_job(daemon->writer, &job);
    if (r == 0)
        lifecycle_publish_job(daemon, EVENT_NAME_JOB_STARTED, run, &job);
    return r;
}

void lifecycle_forget(struct daemon *daemon, struct run *run)
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
    const struct lifecycle_entry *entry = lifecycle_find_entry(daemon, run);

    if (entry && daemon->writer)
        store_writer_begin_job(daemon->writer,
                               &entry->begun); /* without memory, the old one stays */
}

/* Returns the node of the owner of the entry's run, if that is a process of `run`, as the kernel
 * reports it; otherwise NULL. */
static struct run_node *find_owner_node(const struct daemon *daemon,
                                        const struct lifecycle_entry *entry, const struct run *run)
{
    const struct member *caller =
        entry->owner_pid ? registry_find(daemon->registry, entry->owner_pid) : NULL;

    return caller && caller->run == run && !owner_is_gone(entry) ? caller->node : NULL;
}

int run_lifecycle_find_inner(struct daemon *daemon, struct run *run)
{
    size_t position = 0;

    for (struct lifecycle_entry *entry;
         (entry = map_next(&daemon->lifecycle.entries, &position));) {
        struct run *inner = entry->run;
        bool has_closer = inner->parent && !run_is_within(run, inner->parent);

        if (inner->parent == run || has_closer || run_is_within(run, inner))
            continue;
        struct run_node *outer = find_owner_node(daemon, entry, run);
        if (!outer)
            continue;
        int r = engine_set_parent(daemon->engine, inner, outer);
        if (r < 0)
            return r;
        if (inner->uid != run->uid) /* the parent is hidden from another user */
            continue;
        memcpy(entry->parent_run_id, run->run_id, sizeof(entry->parent_run_id));
        entry->begun.parent_run_id = entry->parent_run_id;
        run_lifecycle_store_again(daemon, inner); /* with its parent */
    }
    return 0;
}

void run_lifecycle_leave(struct daemon *daemon, struct run *run)
{
    run_lifecycle_leave_events_to_caller(daemon, run);
    lifecycle_forget(daemon, run);
}

int run_lifecycle_begin(struct daemon *daemon, const struct job_start *start, struct run **ret)
{
    char run_id[UUID_TEXT_SIZE];
    struct run_options options = {.run_id = start->run_id,
                                  .job_id = start->job_id,
                                  .uid = start->uid,
                                  .origin = start->origin,
                                  .parent = start->parent,
                                  .outer = start->outer};
    struct run *run;
    int r = 0;

    if (!start->is_adopted && !lifecycle_has_room(daemon))
        return -ENOBUFS;
    if (!start->run_id) {
        r = uuid_make(clock_real_ns(), run_id);
        options.run_id = run_id;
    }
    if (r == 0)
        r = registry_add_run(daemon->registry, &options, &run);
    if (r < 0)
        return r;
    r = store_begin(daemon, start, run);
    if (r < 0) {
        lifecycle_forget(daemon, run);
        return r;
    }
    *ret = run;
    return 0;
}

void run_lifecycle_begin_found(struct daemon *daemon, struct run *run,
                               const struct process_facts *facts)
{
    const struct text_list *words = &daemon->config->redact;
    _cleanup_(arena_done) struct arena arena = {0};
    char command[COMMAND_MAX_BYTES + 1];
    struct job_start start = {
        .job_id = run->job_id,
        .command = facts->command ? command : NULL,
        .cwd = facts->cwd,
        .uid = facts->uid,
        .started_at = ns_to_sec(clock_real_ns()),
        .total_sheets = INT_UNKNOWN,
        .origin = RUN_BY_RULE,
    };

    if (facts->command) {
        utf8_clean(command, sizeof(command), facts->command, strlen(facts->command));
        redact_buffer(words, command, sizeof(command));
    }
    if (redact_replace(words, &arena, &start.cwd) < 0)
        start.cwd = NULL;
    store_begin(daemon, &start, run); /* without memory, only its samples are stored */
}

/* ---- a run ends ---- */

/* Ends the run with the outcome of its first process if the end of that process was seen, else as
 * lost. */
static void finish_by_root(struct daemon *daemon, struct run *run)
{
    const struct lifecycle_entry *entry = lifecycle_find_entry(daemon, run);
    _cleanup_(arena_done) struct arena arena = {0};
    char cause[64] = CAUSE_LOST;
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
    if (entry && run->origin == RUN_BY_RULE && run->empty_since_ns)
        job.ended_at =
            MAX(entry->begun.started_at,
                ns_to_sec(clock_real_ns()) - ns_to_sec(clock_mono_ns() - run->empty_since_ns));
    run_lifecycle_explain(daemon, run, true, &arena, &job);
    run_lifecycle_finish(daemon, run, &job);
}

void run_lifecycle_end_found(struct daemon *daemon, struct run *run)
{
    finish_by_root(daemon, run);
}

/* Whether no client will report the end of the run. An adopted run may have a scheduler that has
 * not reported since the restart: like a run found by a rule, it stays open for a while after its
 * last process. */
static bool is_left_alone(const struct run *run, const struct lifecycle_entry *entry)
{
    return run->origin == RUN_REGISTERED && owner_is_gone(entry);
}

void run_lifecycle_sweep(struct daemon *daemon)
{
    for (struct run *run = registry_next_run(daemon->registry, NULL), *next; run; run = next) {
        struct lifecycle_entry *entry = lifecycle_find_entry(daemon, run);

        next = registry_next_run(daemon->registry, run);
        if (!entry)
            continue;
        entry->summed_processes = run->members ? 0 : run->node.processes;
        run->has_unstored_events |=
            entry->has_lost_caller; /* its end would have been received by now */
        if (run->caller_stores_events && owner_is_gone(entry)) {
            run->caller_stores_events = false;
            entry->has_lost_caller = true;
            /* Its counts continue from what the caller stored. */
            run_lifecycle_store_again(daemon, run);
        }
        bool was_left_alone = entry->was_left_alone;
        entry->was_left_alone = !run->living && is_left_alone(run, entry);
        /* The last message of its parent may be pending: the loop reads it before the next sweep.
         */
        if (was_left_alone && entry->was_left_alone)
            finish_by_root(daemon, run);
    }
}
