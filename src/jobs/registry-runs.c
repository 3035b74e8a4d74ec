/* The runs of the registry: adding, ending, finding and listing them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "jobs/registry-state.h"
#include "model/field.h"

/* `outer` may be NULL. */
static void join_outer(struct run_entry *entry, struct run_node *outer)
{
    struct run *parent = outer ? outer->run : NULL;

    entry->run.parent = parent;
    entry->run.node.outer = outer;
    if (!parent)
        return;
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
    run->node.tag = ++registry->last_tag;
    run->total_sheets = run->last_completed_sheet = run->current_sheet = INT_UNKNOWN;
    entry->sheet_num = INT_UNKNOWN;
    TAILQ_INIT(&entry->members);
    LIST_INIT(&entry->inner);
    int r = run_index_add(&registry->runs, entry);
    if (r < 0)
        return r;
    join_outer(entry, options->outer    ? options->outer
                      : options->parent ? &options->parent->node
                                        : NULL);
    *ret = &TAKE_PTR(entry)->run;
    return 0;
}

void registry_set_parent(struct run *run, struct run_node *parent)
{
    struct run_entry *entry = entry_of(run);

    for (struct run_node *at = run->node.outer; at; at = at->outer) {
        at->processes -= run->node.processes;
        at->failed -= run->node.failed;
        at->killed -= run->node.killed;
    }
    if (run->parent)
        LIST_REMOVE(entry, siblings);
    join_outer(entry, parent);
    for (struct run_node *at = parent; at; at = at->outer) {
        at->processes += run->node.processes;
        at->failed += run->node.failed;
        at->killed += run->node.killed;
    }
}

void registry_end_run(struct registry *registry, struct run *run)
{
    struct run_entry *entry = entry_of(run), *inner;

    while ((inner = LIST_FIRST(&entry->inner))) {
        LIST_REMOVE(inner, siblings);
        join_outer(inner, run->node.outer);
    }
    if (run->parent)
        LIST_REMOVE(entry, siblings);
    registry_drop_foster(registry, entry->foster);
    while (!TAILQ_EMPTY(&entry->members)) {
        struct member_entry *left = TAILQ_FIRST(&entry->members);
        for (struct run *outer = run->parent; outer; outer = outer->parent)
            outer->misses_processes |= !left->member.has_ended;
        registry_remove_member(registry, left);
    }
    run_index_remove(&registry->runs, entry);
    for (size_t i = 0; i < run->sheets.count; i++)
        free(run->sheets.items[i]);
    VEC_DONE(&run->sheets);
    free(entry);
}

/* ---- steps ---- */

static size_t find_sheet(const struct run *run, int64_t sheet_num)
{
    size_t i = 0;

    while (i < run->sheets.count && run->sheets.items[i]->sheet_num != sheet_num)
        i++;
    return i;
}

static void remove_sheet(struct run *run, size_t place)
{
    run->sheets.count--;
    for (size_t i = place; i < run->sheets.count; i++)
        run->sheets.items[i] = run->sheets.items[i + 1];
}

static int add_sheet(struct registry *registry, struct run *run, int64_t sheet_num)
{
    struct run_sheet *sheet = calloc(1, sizeof(*sheet));

    if (!sheet || VEC_PUSH(&run->sheets, sheet) < 0) {
        free(sheet);
        return -ENOMEM;
    }
    sheet->node = (struct run_node){.run = run, .outer = &run->node, .tag = ++registry->last_tag};
    sheet->sheet_num = sheet_num;
    return 0;
}

int registry_begin_sheet(struct registry *registry, struct run *run, int64_t sheet_num, pid_t pid)
{
    size_t place = find_sheet(run, sheet_num);
    struct run_sheet *sheet = place < run->sheets.count ? run->sheets.items[place] : NULL;
    int r = 0;

    if (sheet && sheet->is_active) {
        sheet->pid = pid ? pid : sheet->pid;
        return 0;
    }
    if (run->active_sheets >= RUN_SHEETS_MAX)
        return -E2BIG;
    if (sheet) {
        remove_sheet(run, place);
        run->sheets.items[run->sheets.count++] = sheet;
    } else {
        r = add_sheet(registry, run, sheet_num);
    }
    if (r < 0)
        return r;
    sheet = run->sheets.items[run->sheets.count - 1];
    sheet->is_active = true;
    sheet->pid = pid;
    sheet->starts++;
    run->active_sheets++;
    return 0;
}

int registry_end_sheet(struct run *run, int64_t sheet_num)
{
    size_t place = find_sheet(run, sheet_num);
    struct run_sheet *sheet = place < run->sheets.count ? run->sheets.items[place] : NULL;
    struct member_entry *entry;
    struct run_entry *inner;

    if (!sheet || !sheet->is_active)
        return 0;
    sheet->is_active = false;
    run->active_sheets--;
    TAILQ_FOREACH (entry, &entry_of(run)->members, in_run)
        if (entry->member.node == &sheet->node)
            entry->member.node = &run->node;
    LIST_FOREACH (inner, &entry_of(run)->inner, siblings)
        if (inner->run.node.outer == &sheet->node)
            inner->run.node.outer = &run->node;
    return 1;
}

struct run_sheet *registry_find_excess_sheet(const struct run *run)
{
    if (run->sheets.count - run->active_sheets <= RUN_SHEETS_MAX)
        return NULL;
    for (size_t i = 0; i < run->sheets.count; i++)
        if (!run->sheets.items[i]->is_active)
            return run->sheets.items[i];
    return NULL;
}

void registry_forget_sheet(struct run *run, struct run_sheet *sheet)
{
    remove_sheet(run, find_sheet(run, sheet->sheet_num));
    free(sheet);
}

/* ---- finding and listing ---- */

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
