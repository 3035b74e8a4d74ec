#include "trace/traced-runs.h"

#include <stdlib.h>
#include <string.h>

static void free_run(struct traced_run *run)
{
    syscall_profile_done(&run->calls);
    free(run);
}

void traced_runs_done(struct traced_runs *runs)
{
    for (size_t i = 0; i < runs->runs.count; i++)
        free_run(runs->runs.items[i]);
    VEC_DONE(&runs->runs);
}

static struct traced_run *find_run(const struct traced_runs *runs, const struct run *run)
{
    for (size_t i = 0; run && i < runs->runs.count; i++)
        if (runs->runs.items[i]->run == run)
            return runs->runs.items[i];
    return NULL;
}

const struct traced_run *traced_runs_find(const struct traced_runs *runs, const struct run *run)
{
    return find_run(runs, run);
}

/* Removes a run from the list, and the references to it. */
static void unlink_run(struct traced_runs *runs, const struct traced_run *gone)
{
    size_t kept = 0;

    for (size_t i = 0; i < runs->runs.count; i++) {
        struct traced_run *run = runs->runs.items[i];
        if (run == gone)
            continue;
        if (run->parent == gone)
            run->parent = NULL;
        runs->runs.items[kept++] = run;
    }
    runs->runs.count = kept;
}

static struct traced_run *get_run(struct traced_runs *runs, const struct run *run)
{
    struct traced_run *entry = find_run(runs, run);
    if (entry)
        return entry;

    struct traced_run *parent = run->parent ? get_run(runs, run->parent) : NULL;
    if (run->parent && !parent)
        return NULL;
    entry = calloc(1, sizeof(*entry));
    if (!entry || VEC_PUSH(&runs->runs, entry) < 0) {
        free(entry);
        return NULL;
    }
    memcpy(entry->run_id, run->run_id, sizeof(entry->run_id));
    entry->run = run;
    entry->parent = parent;
    return entry;
}

struct traced_run *traced_runs_add_tracer(struct traced_runs *runs, const struct run *run)
{
    struct traced_run *entry = get_run(runs, run);

    for (struct traced_run *each = entry; each; each = each->parent)
        each->tracers++;
    return entry;
}

int traced_runs_remove_tracer(struct traced_runs *runs, struct traced_run *run,
                              const struct syscall_profile *calls,
                              void (*on_late)(void *context, const struct traced_run *run),
                              void *context)
{
    struct traced_run *next;
    int r = 0;

    for (; run; run = next) {
        int added = syscall_profile_add_all(&run->calls, calls);

        r = r < 0 ? r : added;
        next = run->parent;
        run->tracers--;
        if (run->run)
            continue;
        if (!run->is_counted)
            on_late(context, run);
        if (run->tracers)
            continue;
        unlink_run(runs, run);
        free_run(run);
    }
    return r;
}

void traced_runs_end_run(struct traced_runs *runs, const struct run *run, bool is_counted)
{
    struct traced_run *entry = find_run(runs, run);

    if (!entry)
        return;
    entry->run = NULL;
    entry->is_counted = is_counted;
    if (entry->tracers)
        return;
    unlink_run(runs, entry);
    free_run(entry);
}
