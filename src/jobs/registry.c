#include "jobs/registry.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "jobs/registry-state.h"
#include "model/field.h"

int registry_new(struct registry **ret)
{
    struct registry *registry = calloc(1, sizeof(*registry));
    if (!registry)
        return -ENOMEM;
    TAILQ_INIT(&registry->by_age);
    run_index_init(&registry->runs);
    *ret = registry;
    return 0;
}

void registry_free(struct registry *registry)
{
    if (!registry)
        return;
    while (!TAILQ_EMPTY(&registry->runs.by_age))
        registry_end_run(registry, &TAILQ_FIRST(&registry->runs.by_age)->run);
    run_index_done(&registry->runs);
    map_done(&registry->members);
    map_done(&registry->fosters);
    map_done(&registry->excluded);
    free(registry);
}

static struct member_entry *find_entry(const struct registry *registry, pid_t pid)
{
    return map_get(&registry->members, (uint64_t)pid);
}

/* ---- joining and leaving ---- */

/* Returns the node of the step if it is active, otherwise that of the run. */
static struct run_node *node_of(struct run_entry *run, int64_t sheet_num)
{
    struct run_sheet *sheet = run_find_sheet(&run->run, sheet_num);

    return sheet ? &sheet->node : &run->run.node;
}

static void count_process(struct run_node *node)
{
    for (; node; node = node->outer)
        node->processes++;
}

static void discount_process(struct run_node *node)
{
    for (; node; node = node->outer)
        node->processes -= node->processes > 0;
}

static void enter_run(struct member_entry *entry, struct run_node *node, int64_t sheet_num)
{
    struct run_entry *run = entry_of(node->run);

    entry->member.run = node->run;
    entry->member.node = node;
    entry->member.sheet_num = sheet_num;
    TAILQ_INSERT_TAIL(&run->members, entry, in_run);
    run->run.members++;
    run->run.empty_since_ns = 0;
}

static void leave_run(struct member_entry *entry)
{
    struct run_entry *run = entry_of(entry->member.run);

    TAILQ_REMOVE(&run->members, entry, in_run);
    run->run.members--;
}

static void move_entry(struct member_entry *entry, struct run_node *to, int64_t sheet_num)
{
    const struct run *from = entry->member.run;
    struct run_node *from_node = entry->member.node;

    discount_process(entry->member.node);
    leave_run(entry);
    enter_run(entry, to, sheet_num);
    count_process(to);
    entry->by_foster = false;
    entry->member.moved_from = from_node;
    if (from != to->run)
        entry->is_not_root = entry->member.pid == to->run->root_pid;
}

/* Adds what an ended process has used to its parent. */
static void pass_on_usage(const struct member_entry *entry)
{
    const struct ended_usage *from = &entry->member.ended;
    struct ended_usage *to = &entry->parent->member.ended;

    to->cpu_ns += from->cpu_ns;
    to->user_ns += from->user_ns;
    to->system_ns += from->system_ns;
    to->read_bytes += from->read_bytes;
    to->write_bytes += from->write_bytes;
    to->peak_rss_bytes = MAX(to->peak_rss_bytes, from->peak_rss_bytes);
    to->processes += from->processes + 1;
    to->is_incomplete |= from->is_incomplete;
}

void registry_remove_member(struct registry *registry, struct member_entry *entry)
{
    if (!entry)
        return;
    if (entry->parent && !entry->is_leaving && entry->parent->member.node == entry->member.node)
        pass_on_usage(entry);
    leave_run(entry);
    member_tree_leave(entry);
    TAILQ_REMOVE(&registry->by_age, entry, by_age);
    map_remove(&registry->members, (uint64_t)entry->member.pid);
    free(entry);
}

void registry_drop_foster(struct registry *registry, struct foster *foster)
{
    if (!foster)
        return;
    foster->run->foster = NULL;
    free(map_remove(&registry->fosters, (uint64_t)foster->pid));
}

static struct foster *find_foster(const struct registry *registry, pid_t pid)
{
    return map_get(&registry->fosters, (uint64_t)pid);
}

/* Removes a process that is gone, as a member and as a foster parent. */
static void remove_process(struct registry *registry, pid_t pid)
{
    registry_drop_foster(registry, find_foster(registry, pid));
    registry_remove_member(registry, find_entry(registry, pid));
}

static int add_member(struct registry *registry, struct run_node *node, int64_t sheet_num,
                      pid_t pid, struct member_entry **ret)
{
    _cleanup_free_ struct member_entry *entry = calloc(1, sizeof(*entry));
    if (!entry)
        return -ENOMEM;

    entry->member = (struct member){.pid = pid, .threads = 1};
    LIST_INIT(&entry->children);
    int r = map_put(&registry->members, (uint64_t)pid, entry);
    if (r < 0)
        return r;
    TAILQ_INSERT_TAIL(&registry->by_age, entry, by_age);
    enter_run(entry, node, sheet_num);
    *ret = TAKE_PTR(entry);
    return 0;
}

/* The place of a process that was not known before. */
struct place {
    struct run_node *node; /* NULL: in no run */
    int64_t sheet_num;
    struct member_entry *parent;
    bool by_foster;
};

/* Finds the place through the parent. A start of UINT64_MAX is unknown. */
static struct place place_below(const struct registry *registry, pid_t pid, pid_t ppid,
                                uint64_t start_ticks)
{
    struct member_entry *parent = find_entry(registry, ppid);
    const struct foster *foster = find_foster(registry, ppid);

    /* A parent that is younger than its child is another process with the same pid. */
    if (parent && parent->member.start_ticks > start_ticks)
        parent = NULL;
    if (foster && !foster->is_doubted && start_ticks >= foster->run->root_ticks &&
        !registry_is_excluded(registry, pid))
        return (struct place){node_of(foster->run, foster->run->sheet_num), foster->run->sheet_num,
                              parent, true};
    if (!parent)
        return (struct place){0};
    return (struct place){parent->member.node, parent->member.sheet_num, parent, false};
}

static int add_placed(struct registry *registry, const struct place *place, pid_t pid, pid_t ppid,
                      struct member_entry **ret)
{
    struct member_entry *entry;

    int r = add_member(registry, place->node, place->sheet_num, pid, &entry);
    if (r < 0)
        return r;
    entry->member.ppid = ppid;
    entry->by_foster = place->by_foster;
    entry->is_not_root = pid == place->node->run->root_pid;
    member_tree_join(entry, place->parent);
    count_process(place->node);
    *ret = entry;
    return 0;
}

/* ---- registering ---- */

static void record_step(struct run_entry *run, int64_t sheet_num)
{
    if (!run->has_registered)
        run->sheet_num = sheet_num;
    else if (run->sheet_num != sheet_num)
        run->sheet_num = INT_UNKNOWN;
    run->has_registered = true;
}

static void move_subtree(struct member_entry *top, struct run_node *to, int64_t sheet_num)
{
    const struct run *from = top->member.run;
    int64_t from_sheet = top->member.sheet_num;

    for (struct member_entry *at = top; at;
         at = member_tree_next_inherited(top, at, from, from_sheet))
        move_entry(at, to, sheet_num);
}

/* Returns whether the member is a child that the foster parent had before the run. */
static bool is_too_old(const struct member_entry *entry)
{
    const struct run_entry *run = (const struct run_entry *)entry->member.run;

    return entry->by_foster && entry->member.start_ticks &&
           entry->member.start_ticks < run->root_ticks;
}

/* Removes members that are too old, with their descendants. */
static void remove_too_old(struct registry *registry, struct run_entry *run)
{
    struct member_entry *entry, *next;

    TAILQ_FOREACH (entry, &run->members, in_run)
        for (struct member_entry *at = is_too_old(entry) ? entry : NULL; at;
             at = member_tree_next_inherited(entry, at, &run->run, entry->member.sheet_num))
            at->is_leaving = true;
    for (entry = TAILQ_FIRST(&run->members); entry; entry = next) {
        next = TAILQ_NEXT(entry, in_run);
        if (!entry->is_leaving)
            continue;
        discount_process(entry->member.node);
        registry_remove_member(registry, entry);
    }
}

/* Sets the start time of a member. The start time may show that the process does not belong to its
 * run; the start time of the root may show this for other members. */
static void set_start(struct registry *registry, struct member_entry *entry, uint64_t start_ticks)
{
    struct run_entry *run = entry_of(entry->member.run);
    bool is_root = entry->member.pid == run->run.root_pid && !entry->is_not_root;

    entry->member.start_ticks = start_ticks;
    if (!start_ticks)
        return;
    if (is_root && !run->root_ticks)
        run->root_ticks = start_ticks;
    else if (!is_too_old(entry))
        return;
    remove_too_old(registry, run);
}

/* Returns whether the fork event of the member has arrived; then all its threads are known too. */
static bool has_fork_event(const struct member_entry *entry)
{
    return !entry->member.was_found && !entry->awaits_fork;
}

void registry_add_ended(struct registry *registry, struct run *run, int64_t sheet_num, pid_t pid)
{
    struct run_entry *to = entry_of(run);
    struct member_entry *entry = find_entry(registry, pid);

    move_subtree(entry, node_of(to, sheet_num), sheet_num);
    record_step(to, sheet_num);
    entry->is_registered = true;
    entry->by_foster = false;
}

int registry_add(struct registry *registry, struct run *run, int64_t sheet_num, pid_t pid)
{
    struct run_entry *to = entry_of(run);
    struct run_node *node = node_of(to, sheet_num);
    struct member_entry *entry = find_entry(registry, pid);

    if (entry && entry->member.has_ended && has_fork_event(entry)) {
        remove_process(registry, pid);
        entry = NULL;
    }
    if (!entry) {
        int r = add_member(registry, node, sheet_num, pid, &entry);
        if (r < 0)
            return r;
        entry->awaits_fork = true;
        entry->is_not_root = to->has_registered && pid == run->root_pid;
        count_process(node);
    } else if (entry->member.node != node || entry->member.sheet_num != sheet_num) {
        move_subtree(entry, node, sheet_num);
    }
    if (!to->has_registered && !run->root_pid)
        run->root_pid = pid;
    record_step(to, sheet_num);
    entry->is_registered = true;
    entry->by_foster = false;
    set_start(registry, entry, entry->member.start_ticks);
    return 0;
}

bool registry_is_registered(const struct registry *registry, pid_t pid)
{
    const struct member_entry *entry = find_entry(registry, pid);

    return entry && entry->is_registered;
}

int registry_adopt(struct registry *registry, struct run *run, int64_t sheet_num, pid_t pid,
                   uint64_t start_ticks)
{
    struct run_entry *to = entry_of(run);
    struct member_entry *entry;

    registry_remove_member(registry, find_entry(registry, pid));
    int r = add_member(registry, node_of(to, sheet_num), sheet_num, pid, &entry);
    if (r < 0)
        return r;
    entry->member.start_ticks = start_ticks;
    entry->member.was_found = true;
    record_step(to, sheet_num);
    /* The root may be gone: the oldest remaining member replaces it. */
    if (!to->root_ticks || start_ticks < to->root_ticks)
        to->root_ticks = start_ticks;
    return 0;
}

int registry_set_foster(struct registry *registry, pid_t pid, struct run *run)
{
    const struct member_entry *entry = find_entry(registry, pid);
    struct run_entry *to = entry_of(run);
    struct foster *former = find_foster(registry, pid), *foster = calloc(1, sizeof(*foster));

    if (!foster || map_put(&registry->fosters, (uint64_t)pid, foster) < 0) {
        free(foster);
        return -ENOMEM;
    }
    *foster =
        (struct foster){.pid = pid, .run = to, .awaits_fork = !entry || !has_fork_event(entry)};
    if (former)
        former->run->foster = NULL;
    free(former);
    registry_drop_foster(registry, to->foster);
    to->foster = foster;
    return 0;
}

void registry_expect(struct registry *registry, pid_t pid, uint64_t start_ticks)
{
    struct member_entry *entry = find_entry(registry, pid);
    struct foster *foster = find_foster(registry, pid);

    if (entry)
        entry->expected_ticks = start_ticks;
    if (foster)
        foster->start_ticks = start_ticks;
}

bool registry_is_foster(const struct registry *registry, pid_t pid)
{
    return find_foster(registry, pid) != NULL;
}

int registry_exclude(struct registry *registry, pid_t pid)
{
    return map_put(&registry->excluded, (uint64_t)pid, registry);
}

bool registry_is_excluded(const struct registry *registry, pid_t pid)
{
    return map_get(&registry->excluded, (uint64_t)pid) != NULL;
}

size_t registry_excluded_count(const struct registry *registry)
{
    return registry->excluded.count;
}

struct run *registry_run_of_reaped(struct registry *registry, pid_t parent, pid_t pid)
{
    const struct member_entry *entry = find_entry(registry, pid);
    const struct foster *foster = find_foster(registry, parent);

    if (entry)
        return entry->member.run;
    if (!foster || registry_is_excluded(registry, pid))
        return NULL;
    if (!registry->trusts_events)
        count_process(node_of(foster->run, foster->run->sheet_num));
    return &foster->run->run;
}

/* ---- events ---- */

/* Returns whether a fork event belongs to this known process: a reading or a registration was
 * faster than the event. */
static bool is_late_fork(const struct member_entry *entry)
{
    return !entry->member.has_ended && !has_fork_event(entry);
}

int registry_fork(struct registry *registry, pid_t parent, pid_t child)
{
    struct member_entry *entry = find_entry(registry, child);
    struct foster *foster = find_foster(registry, child);
    bool is_late_foster = foster && foster->awaits_fork;

    if (foster) {
        foster->awaits_fork = false;
        foster->is_doubted = true;
    }
    if (entry && is_late_fork(entry)) {
        entry->member.was_found = entry->awaits_fork = false;
        entry->member.threads = 1;
        entry->member.ppid = parent;
        if (!entry->parent)
            member_tree_join(entry, find_entry(registry, parent));
        return 0;
    }
    /* The pid belongs to a new process now. */
    if (is_late_foster)
        registry_remove_member(registry, entry);
    else
        remove_process(registry, child);

    const struct place place = place_below(registry, child, parent, UINT64_MAX);
    return place.node ? add_placed(registry, &place, child, parent, &entry) : 0;
}

void registry_thread(struct registry *registry, pid_t pid)
{
    struct member_entry *entry = find_entry(registry, pid);
    if (entry)
        entry->member.threads++;
}

/* The thread count of a process that a reading found is unknown: the last exit event wins. */
static void record_root_end(struct member_entry *entry, int wait_status)
{
    struct run *run = entry->member.run;

    if (entry->member.pid != run->root_pid || entry->is_not_root)
        return;
    run->root_has_ended = true;
    run->root_wait_status = wait_status;
}

void registry_exit(struct registry *registry, pid_t pid, int wait_status)
{
    struct member_entry *entry = find_entry(registry, pid);

    if (entry && entry->member.threads)
        entry->member.threads--;
    if (entry && entry->member.threads)
        return;
    /* The thread count of a process that a reading found is unknown: readings show its end. */
    if (!entry || !entry->member.was_found)
        registry_drop_foster(registry, find_foster(registry, pid));
    if (!entry)
        return;
    entry->member.has_ended = true;
    record_root_end(entry, wait_status);
}

/* ---- readings ---- */

/* Sets the parent of a member whose parent was unknown, or joined after it. */
static void set_parent(struct registry *registry, struct member_entry *entry, pid_t ppid)
{
    if (entry->parent || (entry->member.ppid && entry->member.ppid != ppid))
        return;
    struct member_entry *parent = find_entry(registry, ppid);

    entry->member.ppid = ppid;
    if (parent && parent->member.start_ticks <= entry->member.start_ticks)
        member_tree_join(entry, parent);
}

static void check_foster(struct registry *registry, pid_t pid, uint64_t start_ticks)
{
    struct foster *foster = find_foster(registry, pid);

    if (!foster)
        return;
    if (foster->start_ticks && foster->start_ticks != start_ticks) {
        registry_drop_foster(registry, foster);
        return;
    }
    foster->start_ticks = start_ticks;
    foster->is_doubted = false;
}

static bool is_other_process(const struct member_entry *entry, uint64_t start_ticks)
{
    uint64_t known = entry->member.start_ticks ? entry->member.start_ticks : entry->expected_ticks;

    return known && known != start_ticks;
}

int registry_place(struct registry *registry, pid_t pid, pid_t ppid, uint64_t start_ticks,
                   struct member **ret)
{
    struct member_entry *entry = find_entry(registry, pid);

    check_foster(registry, pid, start_ticks);
    if (entry && is_other_process(entry, start_ticks)) {
        registry_remove_member(registry, entry);
        entry = NULL;
    }
    if (!entry) {
        const struct place place = place_below(registry, pid, ppid, start_ticks);
        int r = place.node ? add_placed(registry, &place, pid, ppid, &entry) : 0;
        if (r < 0)
            return r;
        if (entry)
            entry->member.was_found = true;
    }
    if (entry && !entry->member.start_ticks) {
        set_start(registry, entry, start_ticks);
        entry = find_entry(registry, pid); /* it may have been removed as too old */
    }
    if (entry) {
        set_parent(registry, entry, ppid);
        entry->member.was_placed = true;
    }
    *ret = entry ? &entry->member : NULL;
    return 0;
}

/* Returns the place with that tag; no node if there is none. */
static struct place find_tagged(const struct registry *registry, uint32_t tag)
{
    struct run *run = NULL;

    while (tag && (run = registry_next_run(registry, run))) {
        if (run->node.tag == tag)
            return (struct place){.node = &run->node, .sheet_num = INT_UNKNOWN};
        for (size_t i = 0; i < run->sheets.count; i++) {
            struct run_sheet *sheet = run->sheets.items[i];
            if (sheet->node.tag == tag)
                return (struct place){.node = sheet->is_active ? &sheet->node : &run->node,
                                      .sheet_num = sheet->sheet_num};
        }
    }
    return (struct place){0};
}

int registry_place_tagged(struct registry *registry, uint32_t tag, pid_t pid, pid_t ppid,
                          uint64_t start_ticks, struct member **ret)
{
    const struct place place = find_tagged(registry, tag);
    struct member_entry *entry;

    *ret = NULL;
    if (!place.node || find_entry(registry, pid))
        return 0;
    int r = add_placed(registry, &place, pid, ppid, &entry);
    if (r < 0)
        return r;
    entry->member.was_found = true;
    entry->member.tag = tag;
    return registry_place(registry, pid, ppid, start_ticks, ret);
}

void registry_begin(struct registry *registry)
{
    struct member_entry *entry;

    TAILQ_FOREACH (entry, &registry->by_age, by_age)
        entry->member.was_placed = false;
}

void registry_drop_gone(struct registry *registry)
{
    struct member_entry *entry = TAILQ_FIRST(&registry->by_age);

    while (entry) {
        struct member_entry *next = TAILQ_NEXT(entry, by_age);
        if (!entry->member.was_placed && (entry->member.has_ended || entry->member.was_found))
            remove_process(registry, entry->member.pid);
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

    TAILQ_FOREACH (entry, &registry->by_age, by_age)
        entry->member.was_found = true;
}

struct member *registry_next(const struct registry *registry, const struct member *member)
{
    struct member_entry *next = member ? TAILQ_NEXT((const struct member_entry *)member, by_age)
                                       : TAILQ_FIRST(&registry->by_age);
    return next ? &next->member : NULL;
}

struct member *registry_find(const struct registry *registry, pid_t pid)
{
    struct member_entry *entry = find_entry(registry, pid);
    return entry ? &entry->member : NULL;
}

void registry_remove(struct registry *registry, pid_t pid)
{
    map_remove(&registry->excluded, (uint64_t)pid);
    remove_process(registry, pid);
}

size_t registry_count(const struct registry *registry)
{
    return registry->members.count;
}

size_t registry_pids(const struct registry *registry, pid_t *into)
{
    struct member_entry *entry;
    size_t count = 0;

    TAILQ_FOREACH (entry, &registry->by_age, by_age)
        into[count++] = entry->member.pid;
    return count;
}
