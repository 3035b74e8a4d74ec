/* Encodes the part of a snapshot that a view may see: the rest is omitted, and the snapshot, which
 * others share, stays as it is. */
#include <errno.h>

#include "base/json-writer.h"
#include "base/map.h"
#include "daemon/bus.h"
#include "model/job.h"
#include "model/record-json.h"

struct viewer {
    const struct bus_view *view;
    int64_t (*owner_of)(void *context, const char *run_id);
    void *context;
    struct map pids; /* of the processes that it sees, if there are zombies */
};

static bool is_of_user(const struct viewer *viewer, int64_t uid, const char *run_id)
{
    int64_t own = viewer->view->uid;

    if (!int_is_known(own))
        return false;
    return uid == own ||
           (run_id && viewer->owner_of && viewer->owner_of(viewer->context, run_id) == own);
}

static bool sees(const struct viewer *viewer, int64_t uid, const char *job_id, const char *run_id)
{
    if (viewer->view->job && !job_is_named(viewer->view->job, job_id, run_id))
        return false;
    return viewer->view->sees_all || is_of_user(viewer, uid, run_id);
}

static bool sees_process(const struct viewer *viewer, const struct process_metric *process)
{
    return sees(viewer, process->uid, process->job_id, process->run_id);
}

/* A map, because a user may have thousands of zombies at every tick. */
static int index_pids(struct viewer *viewer, const struct snapshot *snapshot)
{
    const struct process_list *processes = &snapshot->processes;
    int r = 0;

    for (size_t i = 0; snapshot->zombie_pids.count && i < processes->count && r == 0; i++)
        if (sees_process(viewer, &processes->items[i]))
            r = map_put(&viewer->pids, (uint64_t)processes->items[i].pid, viewer);
    return r;
}

/* Fails closed: a list that this function does not know is hidden. */
static bool is_shown(void *context, const struct field *list, const void *item)
{
    const struct viewer *viewer = context;

    switch (list->offset) {
    case offsetof(struct snapshot, processes): return sees_process(viewer, item);
    case offsetof(struct snapshot, jobs): {
        const struct job_usage *job = item;
        return sees(viewer, INT_UNKNOWN, job->job_id, job->run_id);
    }
    case offsetof(struct snapshot, job_progress): {
        const struct job_progress *progress = item;
        return sees(viewer, INT_UNKNOWN, progress->job_id, progress->run_id);
    }
    case offsetof(struct snapshot, zombie_pids):
        return map_get(&viewer->pids, (uint64_t) * (const int64_t *)item);
    case offsetof(struct snapshot, gpus): return true; /* of the machine */
    default: return false;
    }
}

void bus_encode_snapshot(const struct snapshot *snapshot, const struct bus_view *view,
                         int64_t (*owner_of)(void *context, const char *run_id), void *context,
                         struct text *out)
{
    struct json_writer json = {.out = out};
    struct viewer viewer = {view, owner_of, context, .pids = {0}};

    if (view->sees_all && !view->job)
        record_encode(&snapshot_record, snapshot, &json);
    else if (index_pids(&viewer, snapshot) == 0)
        record_encode_part(&snapshot_record, snapshot, is_shown, &viewer, &json);
    else
        out->error = -ENOMEM;
    map_done(&viewer.pids);
}
