#include "probe/bpf/endings.h"

#include <stdlib.h>

#include "base/clock.h"
#include "model/field.h"

/* How long an end that is known waits for those of children. */
#define CHILDREN_MAX_NS NS_PER_SEC
/* How long one waits for its second part, if events were lost; and if none was, and there is no end
 * of memory to give back. */
#define LOST_MAX_NS   NS_PER_SEC
#define ENDING_MAX_NS (60 * NS_PER_SEC)

struct ending {
    struct kernel_exit exit;
    uint64_t lost_before; /* events, before it came */
    bool is_whole;        /* nothing of it is still to come … */
    uint64_t whole_ns;    /* … since then */
    int64_t cpu_ns;       /* unknown until then */
};

void endings_init(struct endings *endings, ending_fn on_end, void *context)
{
    *endings = (struct endings){.on_end = on_end, .context = context};
}

void endings_done(struct endings *endings)
{
    size_t position = 0;

    for (struct ending *ending; (ending = map_next(&endings->by_pid, &position));)
        free(ending);
    map_done(&endings->by_pid);
    map_done(&endings->children);
}

static struct ending *find(const struct endings *endings, pid_t pid)
{
    return map_get(&endings->by_pid, (uint64_t)pid);
}

bool endings_has(const struct endings *endings, pid_t pid)
{
    return find(endings, pid) != NULL;
}

/* ---- families ---- */

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

/* ---- in and out ---- */

static struct ending *add(struct endings *endings, const struct kernel_exit *exit, uint64_t lost)
{
    pid_t parent = exit->parent_pid;
    struct ending *ending = malloc(sizeof(*ending));
    if (!ending)
        return NULL;

    *ending = (struct ending){.exit = *exit,
                              .lost_before = lost,
                              .is_whole = !exit->is_exact,
                              .whole_ns = exit->head.mono_ns,
                              .cpu_ns = INT_UNKNOWN};
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

static void take_out(struct endings *endings, struct ending *ending)
{
    pid_t parent = ending->exit.parent_pid;

    map_remove(&endings->by_pid, (uint64_t)ending->exit.head.pid);
    set_children(endings, parent, count_children(endings, parent) - 1);
    endings->tagged -= ending->exit.head.tag != 0;
}

static void tell(struct endings *endings, struct ending *ending)
{
    endings->on_end(endings->context, &ending->exit, ending->cpu_ns);
    free(ending);
}

static bool is_ready(const struct endings *endings, const struct ending *ending)
{
    return ending->is_whole && !count_children(endings, ending->exit.head.pid);
}

/* Tells of it if it is ready, and then of its parent, which may have waited for that. */
static void tell_if_ready(struct endings *endings, struct ending *ending)
{
    while (ending && is_ready(endings, ending)) {
        pid_t parent = ending->exit.parent_pid;
        take_out(endings, ending);
        tell(endings, ending);
        ending = find(endings, parent);
    }
}

/* Out first: pids that come round again may look like a family without an oldest. */
static void tell_family(struct endings *endings, struct ending *ending)
{
    pid_t pid = ending->exit.head.pid;

    take_out(endings, ending);
    while (count_children(endings, pid))
        tell_family(endings, find_child(endings, pid));
    tell(endings, ending);
}

/* ---- what happens to them ---- */

/* Threads that end at once may all take themselves for the last one. */
static bool has_ended_lately(const struct endings *endings, const struct kernel_exit *exit)
{
    for (size_t i = 0; i < ENDED_LATELY_MAX; i++)
        if (endings->lately[i].pid == exit->head.pid &&
            endings->lately[i].start_boot_ns == exit->start_boot_ns)
            return true;
    return false;
}

static void note_ended(struct endings *endings, const struct kernel_exit *exit)
{
    size_t at = endings->count++ % ENDED_LATELY_MAX;

    endings->lately[at].pid = exit->head.pid;
    endings->lately[at].start_boot_ns = exit->start_boot_ns;
}

void endings_exit(struct endings *endings, const struct kernel_exit *exit, uint64_t lost)
{
    if (has_ended_lately(endings, exit))
        return;
    note_ended(endings, exit);
    endings_settle(endings, exit->head.pid); /* that had its pid */
    struct ending *ending = add(endings, exit, lost);
    if (ending)
        tell_if_ready(endings, ending);
    else
        endings->on_end(endings->context, exit, INT_UNKNOWN);
}

void endings_dead(struct endings *endings, const struct kernel_dead *dead, uint64_t now_ns)
{
    struct ending *ending = find(endings, dead->head.pid);

    if (!ending || ending->exit.start_boot_ns != dead->start_boot_ns ||
        ending->exit.head.tid != dead->head.tid)
        return;
    ending->cpu_ns = (int64_t)(ending->exit.other_cpu_ns + dead->last_cpu_ns);
    ending->is_whole = true;
    ending->whole_ns = now_ns;
    tell_if_ready(endings, ending);
}

void endings_settle(struct endings *endings, pid_t pid)
{
    struct ending *ending = find(endings, pid);

    if (!ending)
        return;
    pid_t parent = ending->exit.parent_pid;
    tell_family(endings, ending);
    tell_if_ready(endings, find(endings, parent));
}

static bool is_lost(const struct ending *ending, uint64_t now_ns, uint64_t lost)
{
    uint64_t patience_ns = lost > ending->lost_before ? LOST_MAX_NS : ENDING_MAX_NS;

    return !ending->is_whole && now_ns - ending->exit.head.mono_ns >= patience_ns;
}

static bool is_impatient(const struct ending *ending, uint64_t now_ns)
{
    return ending->is_whole && now_ns - ending->whole_ns >= CHILDREN_MAX_NS;
}

/* First those of which nothing more will come, then those who waited for them; a parent's parent
 * has its turn the next time. */
void endings_overdue(struct endings *endings, uint64_t now_ns, uint64_t lost)
{
    for (int turn = 0; turn < 2; turn++) {
        size_t position = 0;

        for (struct ending *ending; (ending = map_next(&endings->by_pid, &position));) {
            bool is_due = turn == 0 ? is_lost(ending, now_ns, lost)
                                    : is_ready(endings, ending) || is_impatient(ending, now_ns);
            if (!is_due)
                continue;
            take_out(endings, ending);
            position--; /* another may have moved into its place */
            tell(endings, ending);
        }
    }
}
