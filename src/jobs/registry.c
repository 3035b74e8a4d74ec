#include "jobs/registry.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/cleanup.h"
#include "base/map.h"
#include "base/vec.h"
#include "model/field.h"

struct member_entry {
    struct member member;
    TAILQ_ENTRY(member_entry) neighbours;
};

struct registry {
    struct map members;                /* pid → struct member_entry */
    TAILQ_HEAD(, member_entry) by_age; /* in the order of joining: parents before children */
    struct VEC(struct run *) runs;
    bool trusts_events;
    pid_t foster_pid;
    struct run *foster_run;
    struct VEC(pid_t) strangers; /* children that the foster parent had before */
};

int registry_new(struct registry **ret)
{
    struct registry *registry = calloc(1, sizeof(*registry));
    if (!registry)
        return -ENOMEM;
    TAILQ_INIT(&registry->by_age);
    *ret = registry;
    return 0;
}

void registry_free(struct registry *registry)
{
    if (!registry)
        return;
    while (!TAILQ_EMPTY(&registry->by_age))
        registry_remove(registry, TAILQ_FIRST(&registry->by_age)->member.pid);
    map_done(&registry->members);
    for (size_t i = 0; i < registry->runs.count; i++)
        free(registry->runs.items[i]);
    VEC_DONE(&registry->runs);
    VEC_DONE(&registry->strangers);
    free(registry);
}

void registry_freep(struct registry **registry)
{
    registry_free(*registry);
}

int registry_add_run(struct registry *registry, const char *run_id, const char *job_id,
                     int64_t sheet_num, struct run **ret)
{
    _cleanup_free_ struct run *run = calloc(1, sizeof(*run));
    if (!run)
        return -ENOMEM;

    strncpy(run->run_id, run_id, sizeof(run->run_id) - 1);
    strncpy(run->job_id, job_id, sizeof(run->job_id) - 1);
    run->sheet_num = sheet_num;
    int r = VEC_PUSH(&registry->runs, run);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(run);
    return 0;
}

static struct member_entry *find_entry(const struct registry *registry, pid_t pid)
{
    return map_get(&registry->members, (uint64_t)pid);
}

int registry_add(struct registry *registry, struct run *run, pid_t pid)
{
    /* Whoever had the pid before is gone, or it could not be given again. */
    registry_remove(registry, pid);

    _cleanup_free_ struct member_entry *entry = calloc(1, sizeof(*entry));
    if (!entry)
        return -ENOMEM;
    entry->member = (struct member){.pid = pid, .run = run, .threads = 1};
    int r = map_put(&registry->members, (uint64_t)pid, entry);
    if (r < 0)
        return r;
    TAILQ_INSERT_TAIL(&registry->by_age, entry, neighbours);
    run->processes++;
    TAKE_PTR(entry);
    return 0;
}

void registry_set_foster(struct registry *registry, pid_t pid, struct run *run)
{
    registry->foster_pid = pid;
    registry->foster_run = run;
}

int registry_add_stranger(struct registry *registry, pid_t pid)
{
    return VEC_PUSH(&registry->strangers, pid);
}

bool registry_is_stranger(const struct registry *registry, pid_t pid)
{
    for (size_t i = 0; i < registry->strangers.count; i++)
        if (registry->strangers.items[i] == pid)
            return true;
    return false;
}

size_t registry_stranger_count(const struct registry *registry)
{
    return registry->strangers.count;
}

int registry_fork(struct registry *registry, pid_t parent, pid_t child)
{
    struct member_entry *entry = find_entry(registry, parent);
    struct member_entry *known = find_entry(registry, child);

    bool is_fostered = registry->foster_run && parent == registry->foster_pid &&
                       !registry_is_stranger(registry, child);

    /* A scan was quicker than the event, or this is the command itself: nothing new. */
    if (known && !known->member.has_ended && (known->member.was_found || is_fostered)) {
        known->member.was_found = false;
        return 0;
    }
    if (entry)
        return registry_add(registry, entry->member.run, child);
    /* A child that a member has made its own sibling (CLONE_PARENT). */
    return is_fostered ? registry_add(registry, registry->foster_run, child) : 0;
}

struct run *registry_run_of_reaped(struct registry *registry, pid_t pid)
{
    struct member_entry *entry = find_entry(registry, pid);

    if (entry)
        return entry->member.run;
    if (registry->foster_run && !registry->trusts_events)
        registry->foster_run->processes++;
    return registry->foster_run;
}

void registry_thread(struct registry *registry, pid_t pid)
{
    struct member_entry *entry = find_entry(registry, pid);
    if (entry)
        entry->member.threads++;
}

void registry_exit(struct registry *registry, pid_t pid)
{
    struct member_entry *entry = find_entry(registry, pid);

    if (!entry)
        return;
    if (entry->member.threads)
        entry->member.threads--;
    entry->member.has_ended = entry->member.threads == 0;
}

/* The run that a process seen for the first time belongs to by its parent, or NULL. */
static struct run *run_by_parent(const struct registry *registry, pid_t pid, pid_t ppid,
                                 uint64_t start_ticks)
{
    struct member_entry *parent = find_entry(registry, ppid);

    if (registry->foster_run && ppid == registry->foster_pid)
        return registry_is_stranger(registry, pid) ? NULL : registry->foster_run;
    /* A parent that is younger than its child is a stranger with its pid. */
    if (parent && parent->member.start_ticks <= start_ticks)
        return parent->member.run;
    return NULL;
}

int registry_place(struct registry *registry, pid_t pid, pid_t ppid, uint64_t start_ticks,
                   struct member **ret)
{
    struct member_entry *entry = find_entry(registry, pid);

    if (entry && entry->member.start_ticks && entry->member.start_ticks != start_ticks) {
        registry_remove(registry, pid);
        entry = NULL;
    }
    if (!entry) {
        struct run *run = run_by_parent(registry, pid, ppid, start_ticks);
        int r = run ? registry_add(registry, run, pid) : 0;
        if (r < 0)
            return r;
        entry = find_entry(registry, pid);
        if (entry)
            entry->member.was_found = true;
    }
    if (entry) {
        entry->member.start_ticks = start_ticks;
        entry->member.was_placed = true;
    }
    *ret = entry ? &entry->member : NULL;
    return 0;
}

void registry_begin(struct registry *registry)
{
    struct member_entry *entry;

    TAILQ_FOREACH (entry, &registry->by_age, neighbours)
        entry->member.was_placed = false;
}

void registry_drop_gone(struct registry *registry)
{
    struct member_entry *entry = TAILQ_FIRST(&registry->by_age);

    while (entry) {
        struct member_entry *next = TAILQ_NEXT(entry, neighbours);
        if (!entry->member.was_placed && (entry->member.has_ended || entry->member.was_found))
            registry_remove(registry, entry->member.pid);
        entry = next;
    }
}

void registry_trust_events(struct registry *registry)
{
    registry->trusts_events = true;
}

void registry_distrust_events(struct registry *registry)
{
    struct member_entry *entry;

    registry->trusts_events = false;

    TAILQ_FOREACH (entry, &registry->by_age, neighbours)
        entry->member.was_found = true;
}

struct member *registry_next(const struct registry *registry, const struct member *member)
{
    struct member_entry *next = TAILQ_FIRST(&registry->by_age);

    if (member)
        next = TAILQ_NEXT(find_entry(registry, member->pid), neighbours);
    return next ? &next->member : NULL;
}

struct member *registry_find(const struct registry *registry, pid_t pid)
{
    struct member_entry *entry = find_entry(registry, pid);
    return entry ? &entry->member : NULL;
}

void registry_remove(struct registry *registry, pid_t pid)
{
    struct member_entry *entry = map_remove(&registry->members, (uint64_t)pid);

    for (size_t i = 0; i < registry->strangers.count; i++)
        if (registry->strangers.items[i] == pid)
            registry->strangers.items[i] = registry->strangers.items[--registry->strangers.count];
    if (!entry)
        return;
    TAILQ_REMOVE(&registry->by_age, entry, neighbours);
    free(entry);
}

size_t registry_count(const struct registry *registry)
{
    return registry->members.count;
}

size_t registry_pids(const struct registry *registry, pid_t *into)
{
    struct member_entry *entry;
    size_t count = 0;

    TAILQ_FOREACH (entry, &registry->by_age, neighbours)
        into[count++] = entry->member.pid;
    return count;
}
