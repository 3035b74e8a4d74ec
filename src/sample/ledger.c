#include "sample/ledger.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "base/map.h"
#include "base/vec.h"
#include "model/field.h"

/* The kernel shows the reaped times of a living process in ticks of 10 ms, user and system each
 * rounded down: a debit up to this is rounding, not a loss. */
#define ROUNDING_NS (25 * NS_PER_MSEC)
/* wait4 is not rounded to ticks: more than was seen of it is what it should be. */
#define FINAL_ROUNDING_NS NS_PER_MSEC

/* The account of one process. */
struct account {
    pid_t pid;
    pid_t ppid;
    uint64_t start_ticks;
    struct run_account *run;
    bool seen;     /* at this tick */
    bool is_final; /* sonde reaped it; `final` holds */
    struct cpu_time own;
    struct cpu_time reaped;      /* of its children, as the kernel last said */
    struct cpu_time reaped_then; /* as it said the time before */
    struct cpu_time debit;       /* of vanished children that `reaped` does not yet show */
    struct cpu_time surplus;     /* credit of the last tick that met no debit */
    struct cpu_time final;
    bool is_settled;             /* vanished, and passed on */
    unsigned unsettled_children; /* vanished at this tick, to be settled first */
};

struct run_account {
    const struct run *run;
    struct run_usage usage;
    struct cpu_time settled; /* of processes that are over and accounted for */
    struct cpu_time tick_living;
    bool tick_is_rounded;
    int64_t tick_rss, tick_private, tick_shared_max, tick_processes;
};

struct ledger {
    pid_t own_pid;
    struct map accounts; /* pid → struct account */
    struct VEC(struct run_account *) runs;
    struct VEC(struct account *) vanished; /* reused from tick to tick */
};

static struct cpu_time add(struct cpu_time a, struct cpu_time b)
{
    return (struct cpu_time){a.total_ns + b.total_ns, a.user_ns + b.user_ns};
}

static uint64_t less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* Never below zero. */
static struct cpu_time subtract(struct cpu_time a, struct cpu_time b)
{
    return (struct cpu_time){less(a.total_ns, b.total_ns), less(a.user_ns, b.user_ns)};
}

static bool is_more_than_rounding(struct cpu_time time)
{
    return time.total_ns > ROUNDING_NS;
}

/* What the process and all that it has reaped, or should have, have used. */
static struct cpu_time account_total(const struct account *account)
{
    struct cpu_time total = add(account->own, account->reaped);
    return is_more_than_rounding(account->debit) ? add(total, account->debit) : total;
}

static uint64_t timeval_ns(const struct timeval *time)
{
    return (uint64_t)time->tv_sec * NS_PER_SEC + (uint64_t)time->tv_usec * NS_PER_USEC;
}

struct cpu_time cpu_time_of(const struct rusage *usage)
{
    uint64_t user_ns = timeval_ns(&usage->ru_utime);
    return (struct cpu_time){user_ns + timeval_ns(&usage->ru_stime), user_ns};
}

int ledger_new(pid_t own_pid, struct ledger **ret)
{
    struct ledger *ledger = calloc(1, sizeof(*ledger));
    if (!ledger)
        return -ENOMEM;
    ledger->own_pid = own_pid;
    *ret = ledger;
    return 0;
}

void ledger_free(struct ledger *ledger)
{
    size_t position = 0;

    if (!ledger)
        return;
    for (struct account *account; (account = map_next(&ledger->accounts, &position));)
        free(account);
    map_done(&ledger->accounts);
    for (size_t i = 0; i < ledger->runs.count; i++)
        free(ledger->runs.items[i]);
    VEC_DONE(&ledger->runs);
    VEC_DONE(&ledger->vanished);
    free(ledger);
}

void ledger_freep(struct ledger **ledger)
{
    ledger_free(*ledger);
}

static struct run_account *find_run(const struct ledger *ledger, const struct run *run)
{
    for (size_t i = 0; i < ledger->runs.count; i++)
        if (ledger->runs.items[i]->run == run)
            return ledger->runs.items[i];
    return NULL;
}

static struct run_account *open_run(struct ledger *ledger, const struct run *run)
{
    struct run_account *found = find_run(ledger, run);
    if (found)
        return found;

    struct run_account *opened = calloc(1, sizeof(*opened));
    if (!opened)
        return NULL;
    *opened = (struct run_account){
        .run = run,
        .usage = {.peak_rss_bytes = INT_UNKNOWN,
                  .peak_total_bytes = INT_UNKNOWN,
                  .peak_unique_bytes = INT_UNKNOWN,
                  .rss_bytes = INT_UNKNOWN,
                  .unique_bytes = INT_UNKNOWN},
    };
    if (VEC_PUSH(&ledger->runs, opened) < 0) {
        free(opened);
        return NULL;
    }
    return opened;
}

const struct run_usage *ledger_find(const struct ledger *ledger, const struct run *run)
{
    struct run_account *account = find_run(ledger, run);
    return account ? &account->usage : NULL;
}

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
    if (map_put(&ledger->accounts, (uint64_t)pid, account) < 0) {
        free(account);
        return NULL;
    }
    return account;
}

static void close_account(struct ledger *ledger, struct account *account)
{
    free(map_remove(&ledger->accounts, (uint64_t)account->pid));
}

void ledger_begin(struct ledger *ledger)
{
    size_t position = 0;

    for (struct account *account; (account = map_next(&ledger->accounts, &position));) {
        account->seen = false;
        account->unsettled_children = 0;
    }
    for (size_t i = 0; i < ledger->runs.count; i++) {
        struct run_account *run = ledger->runs.items[i];
        run->tick_living = (struct cpu_time){0};
        run->tick_is_rounded = false;
        run->tick_rss = run->tick_private = run->tick_shared_max = run->tick_processes = 0;
    }
}

static uint64_t known(int64_t value)
{
    return int_is_known(value) && value > 0 ? (uint64_t)value : 0;
}

/* Values only rise: a counter that runs backwards keeps what it had. */
static void raise_to(struct cpu_time *time, uint64_t total_ns, uint64_t user_ns)
{
    time->total_ns = MAX(time->total_ns, total_ns);
    time->user_ns = MAX(time->user_ns, user_ns);
}

static void observe_memory(struct run_account *run, const struct process_reading *reading)
{
    int64_t peak =
        int_is_known(reading->peak_rss_bytes) ? reading->peak_rss_bytes : reading->rss_bytes;

    if (int_is_known(peak))
        run->usage.peak_rss_bytes = MAX(run->usage.peak_rss_bytes, peak);
    if (!int_is_known(reading->rss_bytes))
        return;
    int64_t shared = (int64_t)known(reading->shared_bytes);
    run->tick_rss += reading->rss_bytes;
    run->tick_private += MAX(reading->rss_bytes - shared, (int64_t)0);
    run->tick_shared_max = MAX(run->tick_shared_max, shared);
}

/* sonde's own wait4 is exact, unless less than was seen: then some of it was thrown away. */
static void settle_final(struct account *account)
{
    struct run_account *run = account->run;
    struct cpu_time seen = add(add(account->own, account->reaped), account->debit);

    if (subtract(seen, account->final).total_ns > FINAL_ROUNDING_NS) {
        run->settled = add(run->settled, seen);
        run->usage.cpu_is_incomplete = run->usage.rss_is_incomplete = true;
    } else {
        run->settled = add(run->settled, account->final);
    }
}

/* Whether the pid has changed hands since the account was opened. */
static bool is_another(const struct account *account, const struct process_reading *reading)
{
    return account->is_final ||
           (account->start_ticks && account->start_ticks != reading->start_ticks);
}

/* The pid lives again before its former owner was settled. */
static void settle_former(struct ledger *ledger, struct account *account)
{
    if (account->is_final) {
        settle_final(account);
    } else {
        account->run->settled = add(account->run->settled, account_total(account));
        account->run->usage.cpu_is_incomplete = account->run->usage.rss_is_incomplete = true;
    }
    close_account(ledger, account);
}

int ledger_observe(struct ledger *ledger, struct run *run, const struct process_reading *reading)
{
    struct run_account *run_account = open_run(ledger, run);
    struct account *account = find_account(ledger, reading->pid);

    if (!run_account)
        return -ENOMEM;
    if (account && is_another(account, reading)) {
        settle_former(ledger, account);
        account = NULL;
    }
    if (!account)
        account = open_account(ledger, run_account, reading->pid);
    if (!account)
        return -ENOMEM;

    account->seen = true;
    account->ppid = reading->ppid;
    account->start_ticks = reading->start_ticks;
    raise_to(&account->own, known(reading->cpu_ns), known(reading->user_ns));
    account->reaped_then = account->reaped;
    raise_to(&account->reaped, known(reading->reaped_user_ns) + known(reading->reaped_system_ns),
             known(reading->reaped_user_ns));
    run_account->tick_processes++;
    observe_memory(run_account, reading);
    /* Its children are not reaped by it but thrown away, with all they used. */
    if (reading->ignores_sigchld && run->processes > 1)
        run_account->usage.cpu_is_incomplete = run_account->usage.rss_is_incomplete = true;
    return 0;
}

int ledger_reaped(struct ledger *ledger, struct run *run, pid_t pid, const struct rusage *usage)
{
    struct run_account *run_account = open_run(ledger, run);
    struct account *account = find_account(ledger, pid);

    if (run_account && !account)
        account = open_account(ledger, run_account, pid);
    if (!run_account || !account)
        return -ENOMEM;

    account->is_final = true;
    account->final = cpu_time_of(usage);
    run_account->usage.peak_rss_bytes =
        MAX(run_account->usage.peak_rss_bytes, (int64_t)usage->ru_maxrss * 1024);
    return 0;
}

/* The account that a vanished process's figures should turn up in; NULL if there is none. A parent
 * younger than its child is a stranger with its pid. */
static struct account *heir_of(const struct ledger *ledger, const struct account *account)
{
    struct account *parent = find_account(ledger, account->ppid);
    return parent && parent != account && parent->start_ticks <= account->start_ticks ? parent
                                                                                      : NULL;
}

/* Passes a vanished process's figures on. Returns the heir, if there is one. */
static struct account *settle(const struct ledger *ledger, struct account *account)
{
    struct account *heir = heir_of(ledger, account);
    struct run_account *run = account->run;

    account->is_settled = true;
    if (heir) {
        struct cpu_time total = account_total(account);
        heir->debit = add(heir->debit, subtract(total, heir->surplus));
        heir->surplus = subtract(heir->surplus, total);
        heir->unsettled_children--;
    } else {
        run->settled = add(run->settled, account_total(account));
        run->usage.cpu_is_incomplete = run->usage.rss_is_incomplete = true;
    }
    return heir;
}

/* Children of sonde itself do not vanish: it reaps them. */
static bool has_vanished(const struct ledger *ledger, const struct account *account)
{
    return !account->seen && !account->is_final && !account->is_settled &&
           account->ppid != ledger->own_pid;
}

/* Without memory for the list, the rest is settled at a later tick. */
static void list_vanished(struct ledger *ledger)
{
    size_t position = 0;

    ledger->vanished.count = 0;
    for (struct account *account; (account = map_next(&ledger->accounts, &position));) {
        if (!has_vanished(ledger, account) || VEC_PUSH(&ledger->vanished, account) < 0)
            continue;
        struct account *heir = heir_of(ledger, account);
        if (heir)
            heir->unsettled_children++;
    }
}

/* Settles the vanished from the leaves up, so that a parent that vanished at the same tick passes
 * its children's figures on together with its own. */
static void settle_vanished(struct ledger *ledger)
{
    list_vanished(ledger);
    for (size_t i = 0; i < ledger->vanished.count; i++) {
        struct account *account = ledger->vanished.items[i];
        while (account && has_vanished(ledger, account) && account->unsettled_children == 0)
            account = settle(ledger, account);
    }
    for (size_t i = 0; i < ledger->vanished.count; i++)
        if (ledger->vanished.items[i]->is_settled)
            close_account(ledger, ledger->vanished.items[i]);
}

/* Holds what the kernel has credited to a living parent since the last tick against the debits of
 * its vanished children. A child that was read just before it was reaped vanishes a tick after its
 * credit, so credit that met no debit is kept for the next tick. */
static void apply_credit(struct account *account)
{
    struct cpu_time credit = subtract(account->reaped, account->reaped_then);

    account->surplus = subtract(credit, account->debit);
    account->debit = subtract(account->debit, credit);
}

static void settle_finals(struct ledger *ledger)
{
    size_t position = 0;

    ledger->vanished.count = 0;
    for (struct account *account; (account = map_next(&ledger->accounts, &position));)
        if (account->is_final && VEC_PUSH(&ledger->vanished, account) == 0)
            settle_final(account);
    for (size_t i = 0; i < ledger->vanished.count; i++)
        close_account(ledger, ledger->vanished.items[i]);
}

static void sum_up(struct run_account *run)
{
    struct run_usage *usage = &run->usage;
    int64_t unique = run->tick_private + run->tick_shared_max;

    usage->accounted = add(run->settled, run->tick_living);
    raise_to(&usage->cpu, usage->accounted.total_ns, usage->accounted.user_ns);
    usage->cpu_is_rounded = run->tick_is_rounded;
    usage->processes = run->tick_processes;
    usage->rss_bytes = run->tick_rss;
    usage->unique_bytes = unique;
    if (!run->tick_processes)
        return;
    usage->samples++;
    usage->peak_total_bytes = MAX(usage->peak_total_bytes, run->tick_rss);
    usage->peak_unique_bytes = MAX(usage->peak_unique_bytes, unique);
}

void ledger_end(struct ledger *ledger)
{
    size_t position = 0;

    settle_vanished(ledger);
    settle_finals(ledger);
    for (struct account *account; (account = map_next(&ledger->accounts, &position));) {
        if (account->seen)
            apply_credit(account);
        account->run->tick_living = add(account->run->tick_living, account_total(account));
        account->run->tick_is_rounded |= account->reaped.total_ns > 0;
    }
    for (size_t i = 0; i < ledger->runs.count; i++)
        sum_up(ledger->runs.items[i]);
}
