/* The part of a snapshot that a view may see: a shallow copy with shorter lists. */
#include <errno.h>
#include <string.h>

#include "base/json-writer.h"
#include "base/map.h"
#include "daemon/bus.h"
#include "model/job.h"
#include "model/record-json.h"

struct part {
    const struct bus_view *view;
    int64_t (*owner_of)(void *context, const char *run_id);
    void *context;
    const struct snapshot *whole;
    struct snapshot kept; /* its lists are in `arena`; the items belong to the whole snapshot */
    struct arena arena;
};

static bool is_of_user(const struct part *part, int64_t uid, const char *run_id)
{
    int64_t viewer = part->view->uid;

    if (!int_is_known(viewer))
        return false;
    return uid == viewer ||
           (run_id && part->owner_of && part->owner_of(part->context, run_id) == viewer);
}

static bool is_seen(const struct part *part, int64_t uid, const char *job_id, const char *run_id)
{
    if (part->view->job && !job_is_named(part->view->job, job_id, run_id))
        return false;
    return part->view->sees_all || is_of_user(part, uid, run_id);
}

/* Allocates an empty list with room for all items of the whole list. */
static bool make_room(struct part *part, const void *whole, size_t item_size, void *ret)
{
    const struct any_list *list = whole;
    struct any_list *kept = ret;

    kept->count = 0;
    kept->items = arena_alloc(&part->arena, list->count ? list->count * item_size : 1);
    return kept->items != NULL;
}

static bool keep_processes(struct part *part)
{
    const struct process_list *whole = &part->whole->processes;
    struct process_list *kept = &part->kept.processes;

    if (!make_room(part, whole, sizeof(whole->items[0]), kept))
        return false;
    for (size_t i = 0; i < whole->count; i++) {
        const struct process_metric *process = &whole->items[i];
        if (is_seen(part, process->uid, process->job_id, process->run_id))
            kept->items[kept->count++] = *process;
    }
    return true;
}

static bool keep_jobs(struct part *part)
{
    const struct job_usage_list *whole = &part->whole->jobs;
    struct job_usage_list *kept = &part->kept.jobs;

    if (!make_room(part, whole, sizeof(whole->items[0]), kept))
        return false;
    for (size_t i = 0; i < whole->count; i++) {
        const struct job_usage *job = &whole->items[i];
        if (is_seen(part, INT_UNKNOWN, job->job_id, job->run_id))
            kept->items[kept->count++] = *job;
    }
    return true;
}

static bool keep_progress(struct part *part)
{
    const struct job_progress_list *whole = &part->whole->job_progress;
    struct job_progress_list *kept = &part->kept.job_progress;

    if (!make_room(part, whole, sizeof(whole->items[0]), kept))
        return false;
    for (size_t i = 0; i < whole->count; i++) {
        const struct job_progress *progress = &whole->items[i];
        if (is_seen(part, INT_UNKNOWN, progress->job_id, progress->run_id))
            kept->items[kept->count++] = *progress;
    }
    return true;
}

/* A map, because a user may have thousands of zombies at every tick. */
static bool keep_zombies(struct part *part)
{
    const struct int_list *whole = &part->whole->zombie_pids;
    struct int_list *kept = &part->kept.zombie_pids;
    const struct process_list *processes = &part->kept.processes;
    struct map seen = {0};
    bool is_fine = make_room(part, whole, sizeof(whole->items[0]), kept);

    for (size_t i = 0; whole->count && is_fine && i < processes->count; i++)
        is_fine = map_put(&seen, (uint64_t)processes->items[i].pid, &processes->items[i]) == 0;
    for (size_t i = 0; is_fine && i < whole->count; i++)
        if (map_get(&seen, (uint64_t)whole->items[i]))
            kept->items[kept->count++] = whole->items[i];
    map_done(&seen);
    return is_fine;
}

void bus_encode_snapshot(const struct snapshot *snapshot, const struct bus_view *view,
                         int64_t (*owner_of)(void *context, const char *run_id), void *context,
                         struct text *out)
{
    struct json_writer json = {.out = out};
    struct part part = {view, owner_of, context, snapshot, .kept = *snapshot};

    if (view->sees_all && !view->job)
        record_encode(&snapshot_record, snapshot, &json);
    else if (keep_processes(&part) && keep_jobs(&part) && keep_progress(&part) &&
             keep_zombies(&part))
        record_encode(&snapshot_record, &part.kept, &json);
    else
        out->error = -ENOMEM;
    arena_done(&part.arena);
}
