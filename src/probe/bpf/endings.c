#include "probe/bpf/endings.h"

#include <stdlib.h>

#include "base/clock.h"
#include "model/field.h"

/* How long a complete exit waits for the exits of children. */
#define CHILDREN_MAX_NS NS_PER_SEC
/* How long an exit waits for its second event: if events were lost, and if none was (releasing very
 * much memory takes long). */
#define LOST_MAX_NS   NS_PER_SEC
#define ENDING_MAX_NS (60 * NS_PER_SEC)

struct ending {
    struct kernel_exit exit;
    uint64_t lost_before;    /* events lost before it */
    bool is_whole;           /* both events have arrived */
    uint64_t whole_ns;       /* when that was */
    struct kernel_dead dead; /* the second one, if has_dead */
    bool has_dead;
};

void endings_init(struct endings *endings, ending_fn on_end, void *context)
{
    *endings = (struct endings){.on_end = on_end, .context = context};
}

void endings_done(struct endings *endings)
{
    map_done_free(&endings->by_pid);
    map_done(&endings->children);
}

static struct ending *find_ending(const struct endings *endings, pid_t pid)
{
    return map_get(&endings->by_pid, (uint64_t)pid);
}

bool endings_has(const struct endings *endings, pid_t pid)
{
    return find_ending(endings, pid) != NULL;
}

/* ---- parents and children ---- */

static size_t count_children(const struct endings *endings, pid_t pid)
{
    return (size_t)(uintptr_t)map_get(&endings->children, (uint64_t)pid);
}

static int set_children(struct endings *endings, pid_t pid, size_t count)
{
    if (count)
        return map_put(&endings->children, (uint64_t)pid, (void *)(uintptr_t)count);
    map_remove(&endings->children, (uint64_t)pid);
    return 0;
}

static struct ending *find_child(const struct endings *endings, pid_t pid)
{
    size_t position = 0;

    for (struct ending *other; (other = map_next(&endings->by_pid, &position));)
        if (other->exit.parent_pid == pid)
            return other;
    return NULL;
}

/* ---- adding and reporting ---- */

static struct ending *add_ending(struct endings *endings, const struct kernel_exit *exit,
                                 uint64_t lost)
{
    pid_t parent = exit->parent_pid;
    struct ending *ending = malloc(sizeof(*ending));
    if (!ending)
        return NULL;

    *ending = (struct ending){.exit = *exit,
                              .lost_before = lost,
                              .is_whole = !exit->is_exact,
                              .whole_ns = exit->head.mono_ns};
    if (map_put(&endings->by_pid, (uint64_t)exit->head.pid, ending) < 0) {
        free(ending);
        return NULL;
    }
    if (set_children(endings, parent, count_children(endings, parent) + 1) < 0) {
        free(map_remove(&endings->by_pid, (uint64_t)exit->head.pid));
        return NULL;
    }
    endings->tagged += exit->head.tag != 0;
    return ending;
}

static void remove_ending(struct endings *endings, struct ending *ending)
{
    pid_t parent = ending->exit.parent_pid;

    map_remove(&endings->by_pid, (uint64_t)ending->exit.head.pid);
    set_children(endings, parent, count_children(endings, parent) - 1);
    endings->tagged -= ending->exit.head.tag != 0;
}

static void report_ending(struct endings *endings, struct ending *ending)
{
    endings->on_end(endings->context, &ending->exit, ending->has_dead ? &ending->dead : NULL);
    free(ending);
}

static bool is_ready(const struct endings *endings, const struct ending *ending)
{
    return ending->is_whole && !count_children(endings, ending->exit.head.pid);
}

/* Reports an exit if it is ready, and then that of its parent, which may have waited for it. */
static void report_if_ready(struct endings *endings, struct ending *ending)
{
    while (ending && is_ready(endings, ending)) {
        pid_t parent = ending->exit.parent_pid;
        remove_ending(endings, ending);
        report_ending(endings, ending);
        ending = find_ending(endings, parent);
    }
}

/* Removes the exit first: reused pids may form a cycle of parents. */
static void report_with_children(struct endings *endings, struct ending *ending)
{
    pid_t pid = ending->exit.head.pid;

    remove_ending(endings, ending);
    while (count_children(endings, pid))
        report_with_children(endings, find_child(endings, pid));
    report_ending(endings, ending);
}

/* ---- events ---- */

/* Threads that exit at the same time may each report to be the last one. */
static bool is_duplicate(const struct endings *endings, const struct kernel_exit *exit)
{
    for (size_t i = 0; i < RECENT_EXITS_MAX; i++)
        if (endings->recent[i].pid == exit->head.pid &&
            endings->recent[i].start_boot_ns == exit->start_boot_ns)
            return true;
    return false;
}

void endings_exit(struct endings *endings, const struct kernel_exit *exit, uint64_t lost)
{
    if (is_duplicate(endings, exit))
        return;
    size_t at = endings->count++ % RECENT_EXITS_MAX;
    endings->recent[at].pid = exit->head.pid;
    endings->recent[at].start_boot_ns = exit->start_boot_ns;
    endings_settle(endings, exit->head.pid); /* an earlier process with the same pid */
    struct ending *ending = add_ending(endings, exit, lost);
    if (ending)
        report_if_ready(endings, ending);
    else
        endings->on_end(endings->context, exit, NULL);
}

void endings_dead(struct endings *endings, const struct kernel_dead *dead, uint64_t now_ns)
{
    struct ending *ending = find_ending(endings, dead->head.pid);

    if (!ending || ending->exit.start_boot_ns != dead->start_boot_ns ||
        ending->exit.head.tid != dead->head.tid)
        return;
    ending->dead = *dead;
    ending->has_dead = ending->is_whole = true;
    ending->whole_ns = now_ns;
    report_if_ready(endings, ending);
}

void endings_settle(struct endings *endings, pid_t pid)
{
    struct ending *ending = find_ending(endings, pid);

    if (!ending)
        return;
    pid_t parent = ending->exit.parent_pid;
    report_with_children(endings, ending);
    report_if_ready(endings, find_ending(endings, parent));
}

static bool is_lost(const struct ending *ending, uint64_t now_ns, uint64_t lost)
{
    uint64_t patience_ns = lost > ending->lost_before ? LOST_MAX_NS : ENDING_MAX_NS;

    return !ending->is_whole && now_ns - ending->exit.head.mono_ns >= patience_ns;
}

static bool has_waited_for_children(const struct ending *ending, uint64_t now_ns)
{
    return ending->is_whole && now_ns - ending->whole_ns >= CHILDREN_MAX_NS;
}

/* First reports exits whose second event was lost, then the parents that waited for them. A
 * grandparent follows at the next call. */
void endings_overdue(struct endings *endings, uint64_t now_ns, uint64_t lost)
{
    for (int turn = 0; turn < 2; turn++) {
        size_t position = 0;

        for (struct ending *ending; (ending = map_next(&endings->by_pid, &position));) {
            bool is_due =
                turn == 0 ? is_lost(ending, now_ns, lost)
                          : is_ready(endings, ending) || has_waited_for_children(ending, now_ns);
            if (!is_due)
                continue;
            remove_ending(endings, ending);
            position--; /* see map_next() */
            report_ending(endings, ending);
        }
    }
}
