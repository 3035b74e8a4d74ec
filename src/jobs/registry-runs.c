/* The runs of the registry: adding, ending, finding and listing them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "jobs/registry-state.h"
#include "model/field.h"

/* `parent` may be NULL. */
static void join_parent(struct run_entry *entry, struct run *parent)
{
    entry->run.parent = parent;
    entry->run.node.outer = parent ? &parent->node : NULL;
    if (!parent)
        return;
    parent->has_had_inner = true;
    LIST_INSERT_HEAD(&entry_of(parent)->inner, entry, siblings);
}

int registry_add_run(struct registry *registry, const struct run_options *options, struct run **ret)
{
    _cleanup_free_ struct run_entry *entry = calloc(1, sizeof(*entry));
    if (!entry)
        return -ENOMEM;

    struct run *run = &entry->run;
    run->node.run = run;
    snprintf(run->run_id, sizeof(run->run_id), "%s", options->run_id);
    snprintf(run->job_id, sizeof(run->job_id), "%s", options->job_id);
    run->uid = options->uid;
    run->origin = options->origin;
    run->tag = ++registry->last_tag;
    run->total_sheets = run->last_completed_sheet = run->current_sheet = INT_UNKNOWN;
    entry->sheet_num = INT_UNKNOWN;
    TAILQ_INIT(&entry->members);
    LIST_INIT(&entry->inner);
    int r = run_index_add(&registry->runs, entry);
    if (r < 0)
        return r;
    join_parent(entry, options->parent);
    *ret = &TAKE_PTR(entry)->run;
    return 0;
}

void registry_set_parent(struct run *run, struct run *parent)
{
    struct run_entry *entry = entry_of(run);

    if (run->parent)
        LIST_REMOVE(entry, siblings);
    join_parent(entry, parent);
}

void registry_end_run(struct registry *registry, struct run *run)
{
    struct run_entry *entry = entry_of(run), *inner;

    while ((inner = LIST_FIRST(&entry->inner))) {
        LIST_REMOVE(inner, siblings);
        join_parent(inner, run->parent);
    }
    if (run->parent)
        LIST_REMOVE(entry, siblings);
    registry_drop_foster(registry, entry->foster);
    while (!TAILQ_EMPTY(&entry->members))
        registry_remove_member(registry, TAILQ_FIRST(&entry->members));
    run_index_remove(&registry->runs, entry);
    VEC_DONE(&run->sheets);
    free(entry);
}

bool registry_has_room(const struct registry *registry, int64_t uid)
{
    const struct run *run = NULL;
    size_t own = 0;

    while ((run = registry_next_run(registry, run)))
        own += run->uid == uid;
    return registry_run_count(registry) < REGISTRY_RUNS_MAX && own < REGISTRY_RUNS_PER_USER_MAX;
}

struct run *registry_find_run(const struct registry *registry, const char *run_id)
{
    struct run_entry *entry = run_index_find(&registry->runs, RUN_BY_RUN_ID, run_id, INT_UNKNOWN);
    return entry ? &entry->run : NULL;
}

struct run *registry_find_job(const struct registry *registry, const char *job_id, int64_t uid)
{
    struct run_entry *entry = run_index_find(&registry->runs, RUN_BY_JOB_ID, job_id, uid);
    return entry ? &entry->run : NULL;
}

void registry_find_free_name(const struct registry *registry, const char *job_id, int64_t uid,
                             bool is_taken, char ret_job_id[static JOB_ID_NUMBERED_MAX_BYTES])
{
    snprintf(ret_job_id, JOB_ID_NUMBERED_MAX_BYTES, "%s", job_id);
    for (unsigned number = 2; is_taken || registry_find_job(registry, ret_job_id, uid);
         number++, is_taken = false)
        snprintf(ret_job_id, JOB_ID_NUMBERED_MAX_BYTES, "%s-%u", job_id, number);
}

struct run *registry_next_run(const struct registry *registry, const struct run *run)
{
    /* entry_of() is for runs that are not const. */
    struct run_entry *next = run ? TAILQ_NEXT((const struct run_entry *)run, neighbours)
                                 : TAILQ_FIRST(&registry->runs.by_age);
    return next ? &next->run : NULL;
}

size_t registry_run_count(const struct registry *registry)
{
    return registry->runs.count;
}
