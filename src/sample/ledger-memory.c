/* The memory of the processes of a node together, with shared pages not counted twice: an interval
 * that contains the truth. The exact figure needs a walk through all page tables (smaps_rollup),
 * which stalls the processes.
 *
 * Files and shared memory: at least the largest amount in one process, at most the sum.
 *
 * Anonymous pages are shared only through fork, until an exec replaces them or a write copies them.
 * So each process that has called exec counts completely. A process that has not (a copy) has two
 * kinds of pages: those that it inherited, at most as many as its parent had when it forked, and
 * those that it has added by page faults since.
 * - Lower end: what a copy has beyond the largest amount that it can have inherited is its own.
 * - Upper end: a copy counts with what it can have faulted in. What it inherited is still in its
 *   parent, or the parent has lost it since: by copying it (a fault) or by freeing it.
 * A copy counts completely in the upper end if its parent is gone, runs another program, or belongs
 * to another node.
 *
 * The truth can be below the lower end in two cases: pages with the same content that KSM has
 * merged count in each process, and so does a page that one of two processes has read back from
 * swap. */
#include <errno.h>

#include "base/macros.h"
#include "model/field.h"
#include "sample/ledger-state.h"

/* What a process can have added by so many page faults, with the huge pages of a time. */
static uint64_t growth_of(const struct ledger *ledger, int64_t faults, uint64_t huge_bytes)
{
    return int_is_known(faults) ? (uint64_t)faults * ledger->bounds.fault_bytes + huge_bytes : 0;
}

/* The same at its start, before its first fault. Huge pages that were made before do not count. The
 * last count may be of the same tick of the clock, so that the one before it is needed. */
static uint64_t growth_at_start(const struct ledger *ledger, uint64_t start_ticks)
{
    if (start_ticks > ledger->bounds_then.at_ticks)
        return ledger->bounds_then.huge_bytes;
    return start_ticks > ledger->bounds_before.at_ticks ? ledger->bounds_before.huge_bytes : 0;
}

void ledger_observe_memory(const struct ledger *ledger, struct account *account,
                           const struct process_reading *reading)
{
    struct account_memory *memory = &account->memory;
    int64_t rss = reading->rss_bytes;

    memory->is_present = int_is_known(rss) && rss > 0;
    if (!memory->is_present)
        return;
    bool has_called_exec = memory->arg_start != reading->arg_start;

    memory->is_new = !memory->was_present;
    memory->was_present = true;
    memory->peak_bytes = int_is_known(reading->peak_rss_bytes) ? reading->peak_rss_bytes : rss;
    if (memory->is_new) {
        memory->growth_at_start = growth_at_start(ledger, reading->start_ticks);
        memory->growth_then = memory->growth_at_start;
        /* A copy begins with pages: never more than its peak. */
        memory->anon_then = reading->is_forked ? memory->peak_bytes : 0;
    } else {
        memory->growth_then = memory->growth_min;
        memory->anon_then = has_called_exec ? 0 : memory->anon_bytes;
    }
    memory->rss_bytes = rss;
    memory->shared_bytes =
        int_is_known(reading->shared_bytes) ? MIN(reading->shared_bytes, rss) : 0;
    memory->shmem_bytes = reading->shmem_bytes;
    memory->anon_bytes = rss - memory->shared_bytes;
    memory->growth = growth_of(ledger, reading->faults, ledger->bounds.huge_bytes);
    memory->growth_min = growth_of(ledger, reading->faults, ledger->bounds_then.huge_bytes);
    memory->arg_start = reading->arg_start;
    memory->memory_id = reading->memory_id;
    memory->is_copy = reading->is_forked;
    memory->copies = (struct copies){0};
}

/* ---- parents ---- */

static struct account *find_account(const struct ledger *ledger, pid_t pid)
{
    return map_get(&ledger->accounts, (uint64_t)pid);
}

/* Whether the copy and this process run the same program, by the random address of its stack. A
 * process that has merely adopted an orphan does not. */
static bool runs_same_program(const struct account *account, const struct account *parent)
{
    return parent && parent != account && parent->memory.is_present &&
           parent->start_ticks <= account->start_ticks && account->memory.arg_start &&
           parent->memory.arg_start == account->memory.arg_start;
}

/* Called when a copy is first read: later it may have another parent. Its parent has forked after
 * the reading before, if there was one. */
static void record_parent(struct account *account, const struct account *parent)
{
    struct account_memory *memory = &account->memory;
    const struct account_memory *from = &parent->memory;
    int64_t anon = from->anon_then + (int64_t)difference_or_zero(from->growth, from->growth_then);

    memory->parent_pid = parent->pid;
    memory->parent_start = parent->start_ticks;
    memory->parent_anon = from->anon_then;
    memory->parent_growth = from->growth_then;
    memory->inherited_max = MIN(from->peak_bytes, memory->peak_bytes);
    memory->inherited_max = MIN(memory->inherited_max, anon);
}

/* Returns the parent of a copy, if that still exists and runs the same program, or NULL. */
static struct account *parent_of(const struct ledger *ledger, const struct account *account)
{
    const struct account_memory *memory = &account->memory;
    struct account *parent =
        memory->is_copy && memory->parent_pid ? find_account(ledger, memory->parent_pid) : NULL;

    return runs_same_program(account, parent) && parent->start_ticks == memory->parent_start
               ? parent
               : NULL;
}

/* Finds the process from which all the others of a family were forked, directly or not. The number
 * of steps is limited, because reused pids may form a cycle. */
static struct account *first_of(const struct ledger *ledger, struct account *account)
{
    size_t steps = ledger->accounts.count;
    struct account *parent;

    while ((parent = parent_of(ledger, account)) && steps--)
        account = parent;
    return account;
}

static void find_parents(struct ledger *ledger)
{
    size_t position = 0;

    for (struct account *account; (account = map_next(&ledger->accounts, &position));) {
        struct account_memory *memory = &account->memory;
        if (!is_read(ledger, account->run) || !memory->is_present || !memory->is_copy ||
            !memory->is_new)
            continue;
        struct account *parent = find_account(ledger, account->ppid);
        memory->parent_pid = 0;
        memory->inherited_max = INT_UNKNOWN;
        if (runs_same_program(account, parent))
            record_parent(account, parent);
    }
}

/* ---- sums ---- */

static int64_t added_by(const struct account_memory *memory)
{
    uint64_t added = difference_or_zero(memory->growth, memory->growth_at_start);
    return (int64_t)MIN(added, (uint64_t)memory->anon_bytes);
}

/* Counts a copy with what it has added, in the nodes that also contain the first of its family. */
static void save_inherited(const struct ledger *ledger, struct account *account,
                           struct account *parent)
{
    const struct account *first = first_of(ledger, parent);
    struct copies *copies = &parent->memory.copies;
    const struct account_memory *memory = &account->memory;
    int64_t saved = memory->anon_bytes - added_by(memory);

    for (struct run_account *run = account->run; run; run = outer_of(ledger, run))
        if (run_node_is_within(first->run->node, run->node))
            run->tick_memory.saved_bytes += saved;
    if (!copies->count++ || memory->parent_growth < copies->growth) {
        copies->growth = memory->parent_growth;
        copies->anon_bytes = memory->parent_anon;
    }
}

/* Adds what a process can have lost since it first forked one of its copies: what it had and has
 * faulted in, minus what it has. A copy itself is counted with at most what it has faulted in. */
static void add_lost(const struct ledger *ledger, struct account *account)
{
    const struct account_memory *memory = &account->memory;
    const struct copies *copies = &memory->copies;
    struct account *first = first_of(ledger, account);
    int64_t since = (int64_t)difference_or_zero(memory->growth, copies->growth);
    int64_t lost = MAX(copies->anon_bytes + since - memory->anon_bytes, (int64_t)0);

    if (first != account) {
        uint64_t added = difference_or_zero(memory->growth, memory->growth_at_start);
        lost = MIN(lost, (int64_t)added - added_by(memory));
    }
    for (struct run_account *run = first->run; run; run = outer_of(ledger, run))
        run->tick_memory.lost_bytes += lost;
}

static void add_to_sums(const struct account_memory *memory, struct memory_sums *sums)
{
    int64_t own = memory->anon_bytes;

    if (memory->is_copy)
        own = int_is_known(memory->inherited_max)
                  ? MAX(memory->anon_bytes - memory->inherited_max, (int64_t)0)
                  : 0;
    sums->growth += memory->growth + 1; /* a new process changes it */
    sums->anon_bytes += memory->anon_bytes;
    sums->anon_max = MAX(sums->anon_max, memory->anon_bytes);
    sums->own_bytes += own;
    sums->shared_bytes += memory->shared_bytes;
    sums->shared_max = MAX(sums->shared_max, memory->shared_bytes);
    if (!int_is_known(memory->shmem_bytes))
        return;
    int64_t shmem = MIN(memory->shmem_bytes, memory->shared_bytes);
    sums->shmem_max = MAX(sums->shmem_max, shmem);
    sums->file_max = MAX(sums->file_max, memory->shared_bytes - shmem);
}

void ledger_sum_memory(struct ledger *ledger)
{
    size_t position = 0;
    bool has_copies = false;

    find_parents(ledger);
    for (struct account *account; (account = map_next(&ledger->accounts, &position));) {
        const struct account_memory *memory = &account->memory;
        if (!memory->is_present || !is_read(ledger, account->run))
            continue;
        struct account *parent = parent_of(ledger, account);
        /* Between a vfork and its exec, both are the same memory. */
        bool is_shared =
            parent && memory->memory_id && parent->memory.memory_id == memory->memory_id;
        for (struct run_account *run = account->run; run; run = outer_of(ledger, run)) {
            run->tick_memory.rss_bytes += memory->rss_bytes;
            if (!is_shared || !run_node_is_within(parent->run->node, run->node))
                add_to_sums(memory, &run->tick_memory);
        }
        if (parent && !is_shared) {
            save_inherited(ledger, account, parent);
            has_copies = true;
        }
    }
    position = 0;
    for (struct account *account; has_copies && (account = map_next(&ledger->accounts, &position));)
        if (account->memory.is_present && account->memory.copies.count &&
            is_read(ledger, account->run))
            add_lost(ledger, account);
}

struct memory_interval ledger_memory(const struct ledger *ledger, const struct memory_sums *sums)
{
    int64_t shared_min = MAX(sums->shared_max, sums->file_max + sums->shmem_max);
    int64_t saved = MAX(sums->saved_bytes - sums->lost_bytes, (int64_t)0);
    int64_t min = MAX(sums->anon_max, sums->own_bytes) + shared_min;
    int64_t max = MIN(sums->anon_bytes - saved + sums->shared_bytes, ledger->bounds.total_bytes);

    /* The readings of the processes are not of one instant. */
    return (struct memory_interval){.min_bytes = min, .max_bytes = MAX(max, min)};
}

void ledger_expect_measures(struct ledger *ledger, const struct run_node *node)
{
    ledger->measured = node;
}

bool ledger_may_have_peak(const struct ledger *ledger, const struct run_node *node,
                          uint64_t *ret_growth)
{
    const struct run_account *run = find_run(ledger, node);

    if (!run || !run->tick_processes || run->usage.unique_bytes <= run->measured_peak)
        return false;
    *ret_growth = run->tick_memory.growth;
    return true;
}

/* Files and shared memory count only in part if processes outside the node map them too: the truth
 * lies between this part and all of them. A tick that could not be measured counts with its own
 * interval, until one that is as large can. */
void ledger_measured(struct ledger *ledger, const struct run_node *node,
                     const struct measured_memory *measured)
{
    struct run_account *run = find_run(ledger, node);
    struct run_usage *usage = &run->usage;

    if (!measured) {
        run->unmeasured_peak = MAX(run->unmeasured_peak, usage->unique_bytes);
    } else {
        int64_t shared =
            MAX(run->tick_memory.shared_bytes, measured->total_bytes - measured->anon_bytes);
        if (usage->unique_bytes >= run->unmeasured_peak)
            run->unmeasured_peak = 0;
        usage->unique_min_bytes = MAX(usage->unique_min_bytes, measured->total_bytes);
        usage->unique_bytes = MIN(usage->unique_bytes, measured->anon_bytes + shared);
        usage->unique_bytes = MAX(usage->unique_bytes, usage->unique_min_bytes);
        run->measured_peak = MAX(run->measured_peak, usage->unique_bytes);
    }
    usage->peak_unique_min_bytes = MAX(usage->peak_unique_min_bytes, usage->unique_min_bytes);
    usage->peak_unique_bytes = MAX(run->measured_peak, run->unmeasured_peak);
}

int64_t ledger_unique_bytes(const struct ledger *ledger)
{
    const struct run_account *run;
    size_t position = 0;
    int64_t sum = 0;

    while ((run = map_next(&ledger->runs, &position)))
        if (!outer_of(ledger, run) && int_is_known(run->usage.unique_bytes))
            sum += run->usage.unique_bytes;
    return MIN(sum, ledger->bounds.total_bytes);
}

/* Only bounds of full ticks become earlier ones: at the next full tick, all processes that have
 * started since the last one are new, however many readings of some runs there were between. */
void ledger_set_bounds(struct ledger *ledger, const struct memory_bounds *bounds, bool is_full_tick)
{
    bool is_first = !ledger->bounds.at_ticks;
    bool is_same = ledger->bounds.at_ticks == bounds->at_ticks;

    if (is_first || (ledger->bounds_are_of_tick && !is_same)) {
        ledger->bounds_before = is_first ? *bounds : ledger->bounds_then;
        ledger->bounds_then = is_first ? *bounds : ledger->bounds;
        ledger->bounds_are_of_tick = false;
    }
    ledger->bounds_are_of_tick |= is_full_tick;
    ledger->bounds = *bounds;
}
