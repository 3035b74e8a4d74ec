#include <errno.h>

#include "query/query.h"

/* A running job has no stored duration: it is computed when it is read. */
static void add_wall_so_far(struct job *job, double now)
{
    if (job->outcome == OUTCOME_RUNNING && !real_is_known(job->profile.wall_seconds) &&
        now > job->started_at)
        job->profile.wall_seconds = now - job->started_at;
}

static int find_latest(struct store_reader *reader, struct arena *arena, struct job *ret)
{
    struct job_filter filter = JOB_FILTER_ALL;
    struct job_list latest = {0};

    filter.limit = 1;
    int r = store_read_jobs(reader, &filter, arena, &latest);
    if (r < 0)
        return r;
    /* Reads it again by its key, because lists contain only a part of the profile. */
    return latest.count ? store_find_job(reader, latest.items[0].run_id, arena, ret) : -ENOENT;
}

int query_job(struct store_reader *reader, const char *name, double now, struct arena *arena,
              struct job *ret)
{
    int r = name ? store_find_job(reader, name, arena, ret) : find_latest(reader, arena, ret);

    if (r == 0)
        add_wall_so_far(ret, now);
    return r;
}

int query_jobs(struct store_reader *reader, const struct job_filter *filter, double now,
               struct arena *arena, struct job_list *ret)
{
    int r = store_read_jobs(reader, filter, arena, ret);

    for (size_t i = 0; r == 0 && i < ret->count; i++)
        add_wall_so_far(&ret->items[i], now);
    return r;
}

int query_events(struct store_reader *reader, const char *job, const struct event_filter *filter,
                 struct arena *arena, struct process_event_list *ret)
{
    struct event_filter narrowed = *filter;

    if (job) {
        struct job found;
        int r = store_find_job(reader, job, arena, &found);
        if (r < 0)
            return r;
        narrowed.run_id = found.run_id;
    }
    return store_read_events(reader, &narrowed, arena, ret);
}
