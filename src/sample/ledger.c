#include "sample/ledger.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "model/field.h"
#include "sample/ledger-state.h"

/* The kernel shows the reaped times of a living process in ticks of 10 ms, user and system each
 * rounded down, which makes up to 20 ms; 5 ms are a margin. A debit up to this is rounding, not a
 * loss. */
#define ROUNDING_NS (25 * NS_PER_MSEC)
/* wait4 is exact to the microsecond, so its result must not be smaller than the last reading by
 * more than this. */
#define FINAL_ROUNDING_NS NS_PER_MSEC

/* The unit of ru_inblock and ru_oublock. */
#define IO_BLOCK_BYTES 512

/* A covered process may be missing from a reading shortly before its exit is reported. If it is
 * missing at this many ticks in a row, and no part of its exit was reported, the report counts as
 * lost. */
#define UNSEEN_MAX 3

/* Returns the debit without mere rounding. I/O is not rounded. */
static struct cpu_and_io countable(struct cpu_and_io debit)
{
    if (debit.total_ns > ROUNDING_NS)
        return debit;
    return (struct cpu_and_io){.read_bytes = debit.read_bytes, .write_bytes = debit.write_bytes};
}

struct cpu_and_io ledger_account_total(const struct account *account)
{
    if (account->is_covered)
        return add(account->own, account->before);
    return add(add(account->own, account->reaped), countable(account->debit));
}

static uint64_t timeval_ns(const struct timeval *time)
{
    return (uint64_t)time->tv_sec * NS_PER_SEC + (uint64_t)time->tv_usec * NS_PER_USEC;
}

struct cpu_and_io cpu_and_io_of(const struct rusage *usage)
{
    uint64_t user_ns = timeval_ns(&usage->ru_utime), system_ns = timeval_ns(&usage->ru_stime);
    return (struct cpu_and_io){.total_ns = user_ns + system_ns,
                               .user_ns = user_ns,
                               .system_ns = system_ns,
                               .read_bytes = (uint64_t)usage->ru_inblock * IO_BLOCK_BYTES,
                               .write_bytes = (uint64_t)usage->ru_oublock * IO_BLOCK_BYTES};
}

/* The kernel counts the split in clock ticks, also with VIRT_CPU_ACCOUNTING_GEN, except on CPUs
 * with nohz_full. So it is never exact, and the remainder of an exact total is system time. Where a
 * time is missing, the remainder could exceed the truth: both are then lower bounds by themselves.
 */
void cpu_and_io_fill_times(const struct cpu_and_io *cpu, bool is_exact, struct job_profile *profile)
{
    uint64_t user_ns = MIN(cpu->user_ns, cpu->total_ns), rest_ns = cpu->total_ns - user_ns;

    profile->cpu_seconds = ns_to_sec(cpu->total_ns);
    profile->user_seconds = ns_to_sec(user_ns);
    profile->system_seconds = ns_to_sec(is_exact ? rest_ns : MIN(cpu->system_ns, rest_ns));
    profile->exactness.cpu_seconds = is_exact ? EXACT : LOWER_BOUND;
    profile->exactness.user_seconds = profile->exactness.system_seconds =
        is_exact ? SAMPLED : LOWER_BOUND;
}

void cpu_and_io_fill_io(const struct cpu_and_io *io, bool is_exact, struct job_profile *profile)
{
    profile->read_bytes = (int64_t)io->read_bytes;
    profile->write_bytes = (int64_t)io->write_bytes;
    profile->exactness.read_bytes = profile->exactness.write_bytes = is_exact ? EXACT : LOWER_BOUND;
}

int ledger_new(pid_t own_pid, struct ledger **ret)
{
    struct ledger *ledger = calloc(1, sizeof(*ledger));
    if (!ledger)
        return -ENOMEM;
    ledger->own_pid = own_pid;
    ledger->bounds =
        (struct memory_bounds){.total_bytes = INT64_MAX, .fault_bytes = FAULT_BYTES_MAX};
    *ret = ledger;
    return 0;
}

void ledger_free(struct ledger *ledger)
{
    if (!ledger)
        return;
    map_done_free(&ledger->accounts);
    map_done_free(&ledger->runs);
    VEC_DONE(&ledger->vanished);
    free(ledger);
}

/* Adds the time of an ended process. If its exit was reported and an outer run is not covered yet,
 * a process of that run may reap this time and count it there: adding it too could count it twice.
 * If it is not reaped before that process is covered, it is missing from that run. */
static void add_settled(const struct ledger *ledger, const struct account *account,
                        struct cpu_and_io time, bool is_complete)
{
    bool may_be_reaped = false;

    for (struct run_account *run = account->run; run; run = outer_of(ledger, run)) {
        if (!is_complete)
            mark_incomplete(run);
        if (!may_be_reaped)
            run->settled = add(run->settled, time);
        else if (time.total_ns)
            run->usage.cpu_is_incomplete = true;
        may_be_reaped |= account->is_covered && awaits_parent_cover(run->node);
    }
}

/* Records the time of an ended process that will appear in the account of a process of the node
 * `to`. Nothing changes for the nodes that contain `to`; the others keep the last known time. */
static void pass_on(const struct ledger *ledger, struct run_account *run,
                    const struct run_account *to, struct cpu_and_io time)
{
    for (; run && !run_node_is_within(to->node, run->node); run = outer_of(ledger, run)) {
        run->passed_on = add(run->passed_on, time);
        mark_incomplete(run);
    }
}

/* ---- processes ---- */

static struct account *find_account(const struct ledger *ledger, pid_t pid)
{
    return map_get(&ledger->accounts, (uint64_t)pid);
}

static struct account *open_account(struct ledger *ledger, struct run_account *run, pid_t pid)
{
    struct account *account = calloc(1, sizeof(*account));
    if (!account)
        return NULL;
    account->pid = pid;
    account->run = run;
    account->io_is_unknown = true;
    if (map_put(&ledger->accounts, (uint64_t)pid, account) < 0) {
        free(account);
        return NULL;
    }
    LIST_INSERT_HEAD(&run->accounts, account, in_run);
    return account;
}

static void close_account(struct ledger *ledger, struct account *account)
{
    LIST_REMOVE(account, in_run);
    free(map_remove(&ledger->accounts, (uint64_t)account->pid));
}

static void move_account(struct account *account, struct run_account *run)
{
    LIST_REMOVE(account, in_run);
    LIST_INSERT_HEAD(&run->accounts, account, in_run);
    account->run = run;
}

/* Moves a process that was registered in another node, with all its time. The nodes that it leaves
 * lose that time, unless they reap it. */
static void change_run(const struct ledger *ledger, struct account *account,
                       struct run_account *run)
{
    struct run_account *left = account->run;

    for (; left && !run_node_is_within(run->node, left->node); left = outer_of(ledger, left))
        mark_incomplete(left);
    move_account(account, run);
}

int ledger_move(struct ledger *ledger, const struct run_node *node, pid_t pid, bool from_now)
{
    struct account *account = find_account(ledger, pid);
    struct run_account *at, *left = account ? account->run : NULL;

    if (!account || left->node == node)
        return 0;
    struct run_account *to = ledger_open_run(ledger, node);
    if (!to)
        return -ENOMEM;
    if (!from_now) {
        change_run(ledger, account, to);
        return 0;
    }
    struct cpu_and_io total = ledger_account_total(account);
    for (at = left; at && !run_node_is_within(node, at->node); at = outer_of(ledger, at))
        at->settled = add(at->settled, total);
    for (at = to; at && !run_node_is_within(left->node, at->node); at = outer_of(ledger, at)) {
        at->before = add(at->before, total);
        at->usage.rss_is_incomplete = true; /* its high-water mark may be from before */
    }
    account->peak_before = account->peak;
    move_account(account, to);
    return 0;
}

void ledger_begin(struct ledger *ledger, const struct run_node *root)
{
    size_t position = 0;

    ledger->root = root;
    for (struct account *account; (account = map_next(&ledger->accounts, &position));) {
        if (is_read(ledger, account->run))
            account->seen = account->memory.is_present = false;
        account->unsettled_children = 0;
    }
    position = 0;
    for (struct run_account *run; (run = map_next(&ledger->runs, &position));) {
        if (!is_read(ledger, run))
            continue;
        run->tick_living = (struct cpu_and_io){0};
        run->tick_is_rounded = run->tick_io_is_unknown = false;
        run->tick_processes = 0;
        run->tick_memory = (struct memory_sums){0};
    }
}

/* 0 for an unknown or negative value. */
static uint64_t known_or_zero(int64_t value)
{
    return int_is_known(value) && value > 0 ? (uint64_t)value : 0;
}

/* Values never decrease: a counter that runs backwards is ignored. */
static void raise_to(struct cpu_and_io *time, struct cpu_and_io now)
{
    time->total_ns = MAX(time->total_ns, now.total_ns);
    time->user_ns = MAX(time->user_ns, now.user_ns);
    time->system_ns = MAX(time->system_ns, now.system_ns);
    time->read_bytes = MAX(time->read_bytes, now.read_bytes);
    time->write_bytes = MAX(time->write_bytes, now.write_bytes);
}

/* I/O of an ended thread may move from own to reaped I/O; only the sum never decreases. */
static void observe_io(struct account *account, const struct process_reading *reading)
{
    account->io_is_unknown = !int_is_known(reading->read_bytes);
    if (account->io_is_unknown)
        return;
    account->own.read_bytes = known_or_zero(reading->read_bytes);
    account->own.write_bytes = known_or_zero(reading->write_bytes);
    account->reaped.read_bytes = known_or_zero(reading->reaped_read_bytes);
    account->reaped.write_bytes = known_or_zero(reading->reaped_write_bytes);
}

static void observe_use(struct account *account, const struct process_reading *reading)
{
    uint64_t user_ns = known_or_zero(reading->reaped_user_ns);
    uint64_t system_ns = known_or_zero(reading->reaped_system_ns);
    const struct cpu_and_io own = {.total_ns = known_or_zero(reading->cpu_ns),
                                   .user_ns = known_or_zero(reading->user_ns),
                                   .system_ns = known_or_zero(reading->system_ns)};
    const struct cpu_and_io reaped = {
        .total_ns = user_ns + system_ns, .user_ns = user_ns, .system_ns = system_ns};

    account->ppid = reading->ppid;
    account->start_ticks = reading->start_ticks;
    account->reaped_then = account->reaped;
    raise_to(&account->own, own);
    raise_to(&account->reaped, reaped);
    observe_io(account, reading);
}

/* Returns the peak of the process, as far as it was reached in its node. */
static int64_t note_peak(struct account *account, int64_t peak_bytes, int64_t rss_bytes)
{
    if (!int_is_known(peak_bytes))
        return rss_bytes;
    account->peak = MAX(account->peak, peak_bytes);
    return peak_bytes > account->peak_before ? peak_bytes : rss_bytes;
}

static void observe_peak(struct run_account *run, int64_t peak)
{
    if (int_is_known(peak))
        run->usage.peak_rss_bytes = MAX(run->usage.peak_rss_bytes, peak);
}

/* sonde's own wait4 is exact. If it returns less than was seen, the kernel has discarded some time.
 */
static void settle_final(const struct ledger *ledger, struct account *account)
{
    if (account->is_covered) { /* its exit report was lost; what it reaped is counted already */
        add_settled(ledger, account, ledger_account_total(account), false);
        return;
    }
    struct cpu_and_io seen = add(add(account->own, account->reaped), account->debit);
    struct cpu_and_io final = account->final, missing = subtract(seen, final);
    bool is_complete = missing.total_ns <= FINAL_ROUNDING_NS;
    uint64_t io_rounding = (account->run->node->run->node.processes + 1) * IO_BLOCK_BYTES;

    if (missing.read_bytes > io_rounding || missing.write_bytes > io_rounding)
        for (struct run_account *run = account->run; run; run = outer_of(ledger, run))
            run->usage.io_is_incomplete = true;
    final.read_bytes = MAX(final.read_bytes, seen.read_bytes);
    final.write_bytes = MAX(final.write_bytes, seen.write_bytes);
    add_settled(ledger, account, is_complete ? final : seen, is_complete);
}

/* Whether the pid belongs to a new process. */
static bool is_new_process(const struct account *account, const struct process_reading *reading)
{
    return account->is_final ||
           (account->start_ticks && account->start_ticks != reading->start_ticks);
}

/* For a pid that was reused before the former process was settled. */
static void settle_former(struct ledger *ledger, struct account *account)
{
    if (account->is_final)
        settle_final(ledger, account);
    else
        add_settled(ledger, account, ledger_account_total(account), false);
    close_account(ledger, account);
}

int ledger_observe(struct ledger *ledger, const struct run_node *node,
                   const struct process_reading *reading)
{
    struct run_account *run_account = ledger_open_run(ledger, node);
    struct account *account = find_account(ledger, reading->pid);

    if (!run_account)
        return -ENOMEM;
    if (account && is_new_process(account, reading)) {
        settle_former(ledger, account);
        account = NULL;
    }
    if (!account)
        account = open_account(ledger, run_account, reading->pid);
    if (!account)
        return -ENOMEM;
    if (account->run != run_account)
        change_run(ledger, account, run_account);

    account->seen = true;
    account->unseen = 0;
    observe_use(account, reading);
    ledger_observe_memory(ledger, account, reading);
    bool kernel_discards_children =
        reading->ignores_sigchld && node->run->node.processes > 1 && !account->is_covered;
    int64_t peak = note_peak(account, reading->peak_rss_bytes, reading->rss_bytes);
    for (; run_account; run_account = outer_of(ledger, run_account)) {
        run_account->tick_processes++;
        observe_peak(run_account, peak);
        if (kernel_discards_children)
            mark_incomplete(run_account);
    }
    return 0;
}

int ledger_observe_ended(struct ledger *ledger, const struct run_node *node)
{
    struct run_account *run_account = ledger_open_run(ledger, node);

    if (!run_account)
        return -ENOMEM;
    for (; run_account; run_account = outer_of(ledger, run_account))
        run_account->tick_processes++;
    return 0;
}

/* Returns the account of a process of that node, opened if needed; NULL without memory. */
static struct account *get_account(struct ledger *ledger, const struct run_node *node, pid_t pid)
{
    struct run_account *run_account = ledger_open_run(ledger, node);
    struct account *account = find_account(ledger, pid);

    return run_account && !account ? open_account(ledger, run_account, pid) : account;
}

void ledger_raise_peak(struct ledger *ledger, const struct run_node *node, int64_t peak_rss_bytes)
{
    for (struct run_account *at = find_run(ledger, node); at; at = outer_of(ledger, at))
        at->usage.peak_rss_bytes = MAX(at->usage.peak_rss_bytes, peak_rss_bytes);
}

int ledger_reaped(struct ledger *ledger, const struct run_node *node, pid_t pid,
                  const struct rusage *usage)
{
    struct account *account = get_account(ledger, node, pid);
    if (!account)
        return -ENOMEM;

    account->is_final = true;
    account->final = cpu_and_io_of(usage);
    ledger_raise_peak(ledger, node, (int64_t)usage->ru_maxrss * 1024);
    return 0;
}

/* Subtracts what the kernel has credited to a live parent since the last tick from the debits of
 * its vanished children. A child that was read just before it was reaped vanishes a tick after its
 * credit, so credit without a debit is kept for the next tick. */
static void apply_credit(struct account *account)
{
    struct cpu_and_io credit = subtract(account->reaped, account->reaped_then);

    account->surplus = subtract(credit, account->debit);
    account->debit = subtract(account->debit, credit);
}

/* ---- reported exits ---- */

int ledger_cover(struct ledger *ledger, const struct run_node *node, pid_t pid,
                 uint64_t start_ticks, const struct process_reading *reading)
{
    struct account *former = find_account(ledger, pid);
    /* It may have been read before its fork was reported. */
    bool is_same = former && start_ticks && former->start_ticks == start_ticks;

    /* A fork: the former process with this pid is gone. */
    if (former && !reading && !is_same)
        settle_former(ledger, former);
    struct account *account = get_account(ledger, node, pid);
    if (!account)
        return -ENOMEM;
    account->is_covered = true;
    if (!reading)
        return 0;
    observe_use(account, reading);
    apply_credit(account);
    account->before = add(account->reaped, countable(account->debit));
    if (reading->ignores_sigchld && node->run->node.processes > 1)
        for (struct run_account *at = account->run; at; at = outer_of(ledger, at))
            mark_incomplete(at); /* the kernel may have discarded children before */
    return 0;
}

int ledger_ended(struct ledger *ledger, const struct run_node *node, const struct process_end *end)
{
    struct account *account = get_account(ledger, node, end->pid);
    if (!account)
        return -ENOMEM;

    if (int_is_known(end->cpu_ns)) { /* the kernel scales the split anew as the total grows */
        account->own.total_ns = MAX(account->own.total_ns, known_or_zero(end->cpu_ns));
        account->own.user_ns = MIN(known_or_zero(end->user_ns), account->own.total_ns);
        account->own.system_ns = account->own.total_ns - account->own.user_ns;
        account->own.read_bytes = known_or_zero(end->read_bytes);
        account->own.write_bytes = known_or_zero(end->write_bytes);
    }
    ledger_raise_peak(ledger, node, note_peak(account, end->peak_rss_bytes, INT_UNKNOWN));
    add_settled(ledger, account, ledger_account_total(account), int_is_known(end->cpu_ns));
    close_account(ledger, account);
    return 0;
}

void ledger_await_end(struct ledger *ledger, pid_t pid)
{
    struct account *account = find_account(ledger, pid);

    if (account)
        account->unseen = 0;
}

/* Settles covered processes that have been gone for too long: their exit reports were lost. Closes
 * accounts only after the pass: a removal can move another account to a place that comes later, and
 * its tick would count twice. Without memory for the list, the rest is settled at a later tick. */
static void settle_lost(struct ledger *ledger)
{
    size_t position = 0;

    ledger->vanished.count = 0;
    for (struct account *account; (account = map_next(&ledger->accounts, &position));)
        if (account->is_covered && !account->seen && !account->is_final &&
            ++account->unseen >= UNSEEN_MAX && VEC_PUSH(&ledger->vanished, account) == 0)
            add_settled(ledger, account, ledger_account_total(account), false);
    for (size_t i = 0; i < ledger->vanished.count; i++)
        close_account(ledger, ledger->vanished.items[i]);
}

/* Returns the account of the parent that has reaped a vanished process, in which its figures should
 * appear, or NULL. A parent that is younger than its child is another process with the same pid. */
static struct account *find_reaper(const struct ledger *ledger, const struct account *account)
{
    struct account *parent = find_account(ledger, account->ppid);
    return parent && parent != account && parent->start_ticks <= account->start_ticks ? parent
                                                                                      : NULL;
}

/* Whether a covered process has reaped the process of this account, or an ancestor of it. The
 * number of steps is limited, because reused pids may form a cycle of parents. */
static bool is_absorbed(const struct ledger *ledger, const struct account *account)
{
    size_t steps = ledger->accounts.count;

    while (account && !account->is_covered && !account->is_final && steps--)
        account = find_reaper(ledger, account);
    return account && account->is_covered;
}

/* Checks all accounts before it closes the first: the path to a covered ancestor leads through
 * others that are gone. */
void ledger_absorb_gone(struct ledger *ledger)
{
    size_t position = 0;

    for (struct account *account; (account = map_next(&ledger->accounts, &position));)
        account->is_settled = !account->is_covered && is_absorbed(ledger, account);
    position = 0;
    for (struct account *account; (account = map_next(&ledger->accounts, &position));)
        if (account->is_settled) {
            close_account(ledger, account);
            position--; /* another may have moved into its place */
        }
}

/* Passes the figures of a vanished process to the account of the parent that reaped it. Returns
 * that account, or NULL. */
static struct account *settle_account(const struct ledger *ledger, struct account *account)
{
    struct account *reaper = find_reaper(ledger, account);
    struct cpu_and_io total = ledger_account_total(account);

    account->is_settled = true;
    if (!reaper) {
        add_settled(ledger, account, total, false);
        return NULL;
    }
    if (reaper->is_covered) { /* the exit should have been reported */
        reaper->unsettled_children--;
        add_settled(ledger, account, total, false);
        return NULL;
    }
    pass_on(ledger, account->run, reaper->run, total);
    reaper->debit = add(reaper->debit, subtract(total, reaper->surplus));
    reaper->surplus = subtract(reaper->surplus, total);
    reaper->unsettled_children--;
    return reaper;
}

/* Children of sonde itself do not vanish: it reaps them. */
static bool has_vanished(const struct ledger *ledger, const struct account *account)
{
    return is_read(ledger, account->run) && !account->seen && !account->is_final &&
           !account->is_settled && !account->is_covered && account->ppid != ledger->own_pid;
}

/* Without memory for the list, the rest is settled at a later tick. */
static void list_vanished(struct ledger *ledger)
{
    size_t position = 0;

    ledger->vanished.count = 0;
    for (struct account *account; (account = map_next(&ledger->accounts, &position));) {
        if (!has_vanished(ledger, account) || VEC_PUSH(&ledger->vanished, account) < 0)
            continue;
        struct account *reaper = find_reaper(ledger, account);
        if (reaper)
            reaper->unsettled_children++;
    }
}

/* Settles vanished processes from the leaves up, so that a parent that vanished at the same tick
 * passes on the figures of its children with its own. */
static void settle_vanished(struct ledger *ledger)
{
    list_vanished(ledger);
    for (size_t i = 0; i < ledger->vanished.count; i++) {
        struct account *account = ledger->vanished.items[i];
        while (account && has_vanished(ledger, account) && account->unsettled_children == 0)
            account = settle_account(ledger, account);
    }
    for (size_t i = 0; i < ledger->vanished.count; i++)
        if (ledger->vanished.items[i]->is_settled)
            close_account(ledger, ledger->vanished.items[i]);
}

static void settle_finals(struct ledger *ledger)
{
    size_t position = 0;

    ledger->vanished.count = 0;
    for (struct account *account; (account = map_next(&ledger->accounts, &position));)
        if (is_read(ledger, account->run) && account->is_final &&
            VEC_PUSH(&ledger->vanished, account) == 0)
            settle_final(ledger, account);
    for (size_t i = 0; i < ledger->vanished.count; i++)
        close_account(ledger, ledger->vanished.items[i]);
}

void ledger_update_usage(const struct ledger *ledger, struct run_account *run)
{
    struct run_usage *usage = &run->usage;
    struct memory_interval unique = ledger_memory(ledger, &run->tick_memory);

    usage->accounted =
        subtract(add(add(run->settled, run->passed_on), run->tick_living), run->before);
    raise_to(&usage->largest, usage->accounted);
    usage->cpu_is_rounded = run->tick_is_rounded;
    usage->io_is_unknown = run->tick_io_is_unknown;
    usage->processes = run->tick_processes;
    usage->rss_bytes = run->tick_memory.rss_bytes;
    usage->unique_min_bytes = unique.min_bytes;
    usage->unique_bytes = unique.max_bytes;
    if (!run->tick_processes)
        return;
    usage->samples++;
    usage->peak_total_bytes = MAX(usage->peak_total_bytes, usage->rss_bytes);
    usage->peak_unique_min_bytes = MAX(usage->peak_unique_min_bytes, unique.min_bytes);
    if (run->node != ledger->measured)
        usage->peak_unique_bytes = MAX(usage->peak_unique_bytes, unique.max_bytes);
    usage->peak_processes = MAX(usage->peak_processes, run->tick_processes);
}

static void add_living(const struct ledger *ledger, const struct account *account)
{
    struct cpu_and_io total = ledger_account_total(account);

    for (struct run_account *run = account->run; run; run = outer_of(ledger, run)) {
        run->tick_living = add(run->tick_living, total);
        run->tick_is_rounded |= account->reaped.total_ns > 0 && !account->is_covered;
        run->tick_io_is_unknown |= account->io_is_unknown;
    }
}

void ledger_end(struct ledger *ledger)
{
    size_t position = 0;

    settle_vanished(ledger);
    if (!ledger->root) /* other readings may follow each other quickly */
        settle_lost(ledger);
    settle_finals(ledger);
    ledger_sum_memory(ledger);
    for (struct account *account; (account = map_next(&ledger->accounts, &position));) {
        if (!is_read(ledger, account->run))
            continue;
        if (account->seen)
            apply_credit(account);
        add_living(ledger, account);
    }
    position = 0;
    for (struct run_account *run; (run = map_next(&ledger->runs, &position));)
        if (is_read(ledger, run))
            ledger_update_usage(ledger, run);
}

void ledger_end_step(struct ledger *ledger, const struct run_node *node)
{
    struct run_account *step = find_run(ledger, node);
    struct run_account *outer = step ? outer_of(ledger, step) : NULL;
    struct account *account;
    size_t position = 0;

    if (!outer)
        return;
    while ((account = map_next(&ledger->accounts, &position)))
        if (run_node_is_within(account->run->node, node))
            step->settled = add(step->settled, ledger_account_total(account));
    while ((account = LIST_FIRST(&step->accounts)))
        move_account(account, outer);
    bool was_rounded = step->tick_is_rounded, io_was_unknown = step->tick_io_is_unknown;
    step->tick_living = (struct cpu_and_io){0};
    step->tick_processes = 0;
    step->tick_memory = (struct memory_sums){0};
    ledger_update_usage(ledger, step);
    step->usage.cpu_is_incomplete |= was_rounded;
    step->usage.io_is_incomplete |= io_was_unknown;
}

/* The remaining processes of the node still count for the node around it; without further readings
 * they are settled like vanished ones. */
void ledger_end_node(struct ledger *ledger, const struct run_node *node)
{
    struct run_account *ended = find_run(ledger, node);
    struct run_account *outer = ended ? outer_of(ledger, ended) : NULL;
    struct account *account;

    if (!ended)
        return;
    while ((account = LIST_FIRST(&ended->accounts))) {
        bool may_be_reaped = account->is_covered && awaits_parent_cover(node);

        if (outer && !may_be_reaped) {
            move_account(account, outer);
            continue;
        }
        add_settled(ledger, account, ledger_account_total(account), false);
        close_account(ledger, account);
    }
    free(map_remove(&ledger->runs, (uint64_t)(uintptr_t)node));
}
