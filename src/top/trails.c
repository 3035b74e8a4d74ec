#include "top/trails.h"

#include <stdlib.h>

#include "base/macros.h"
#include "top/listing.h"

static struct trail *find_or_add(struct trails *trails, uint64_t key)
{
    struct trail *trail = map_get(&trails->by_key, key);

    if (trail)
        return trail;
    trail = calloc(1, sizeof(*trail));
    if (!trail || map_put(&trails->by_key, key, trail) < 0) {
        free(trail);
        return NULL;
    }
    trail->key = key;
    return trail;
}

static void add_point(struct trails *trails, uint64_t key, double cpu, double mb)
{
    struct trail *trail = find_or_add(trails, key);

    if (!trail)
        return;
    trail->cpu[trail->next] = (float)cpu;
    trail->mb[trail->next] = (float)mb;
    trail->next = (trail->next + 1) % TRAIL_POINTS;
    trail->count = MIN(trail->count + 1, (unsigned)TRAIL_POINTS);
    trail->frame = trails->frame;
}

static float add_known(float sum, double value)
{
    return real_is_known(value) ? sum + (float)value : sum;
}

/* The point of a step is the sum over its processes: the first one begins it, the others add to it.
 */
static void add_step_point(struct trails *trails, const struct process_metric *process)
{
    uint64_t key =
        listing_sheet_key(listing_job_key(process->run_id, process->job_id), process->sheet_num);
    struct trail *trail = map_get(&trails->by_key, key);

    if (!trail || trail->frame != trails->frame)
        add_point(trails, key, 0, 0);
    trail = map_get(&trails->by_key, key);
    if (!trail)
        return;
    unsigned last = (trail->next + TRAIL_POINTS - 1) % TRAIL_POINTS;
    trail->cpu[last] = add_known(trail->cpu[last], process->cpu_percent);
    trail->mb[last] = add_known(trail->mb[last], process->rss_mb);
}

static void drop_gone(struct trails *trails)
{
    struct trail *trail;
    size_t position = 0;

    while ((trail = map_next(&trails->by_key, &position))) {
        if (trail->frame == trails->frame)
            continue;
        map_remove(&trails->by_key, trail->key);
        free(trail);
        position--;
    }
}

void trails_add(struct trails *trails, const struct snapshot *snapshot)
{
    size_t count = snapshot->processes.count + snapshot->jobs.count;

    trails->frame++;
    for (size_t i = 0; i < snapshot->processes.count; i++) {
        const struct process_metric *process = &snapshot->processes.items[i];
        add_point(trails, listing_process_key(process), process->cpu_percent, process->rss_mb);
        if (int_is_known(process->sheet_num))
            add_step_point(trails, process);
    }
    for (size_t i = 0; i < snapshot->jobs.count; i++) {
        const struct job_usage *job = &snapshot->jobs.items[i];
        add_point(trails, listing_job_key(job->run_id, job->job_id), job->cpu_percent,
                  job->unique_mb);
    }
    if (trails->by_key.count > 2 * count) /* not at every frame, because it visits all */
        drop_gone(trails);
}

void trails_clear(struct trails *trails)
{
    struct trail *trail;
    size_t position = 0;

    while ((trail = map_next(&trails->by_key, &position)))
        free(trail);
    map_clear(&trails->by_key);
}

void trails_done(struct trails *trails)
{
    trails_clear(trails);
    map_done(&trails->by_key);
}

const struct trail *trails_find(const struct trails *trails, uint64_t key)
{
    return map_get(&trails->by_key, key);
}

static double point_at(const struct trail *trail, const float *points, unsigned i)
{
    if (!trail || i >= trail->count)
        return REAL_UNKNOWN;
    return (double)points[(trail->next + TRAIL_POINTS - 1 - i) % TRAIL_POINTS];
}

double trail_cpu(const struct trail *trail, unsigned i)
{
    return trail ? point_at(trail, trail->cpu, i) : REAL_UNKNOWN;
}

double trail_mb(const struct trail *trail, unsigned i)
{
    return trail ? point_at(trail, trail->mb, i) : REAL_UNKNOWN;
}
