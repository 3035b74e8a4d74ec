/* The state of the ledger, shared by ledger.c (processes) and ledger-nodes.c (runs). */
#pragma once

#include <sys/queue.h>

#include "base/map.h"
#include "base/vec.h"
#include "sample/ledger.h"

/* The account of one process. */
struct account {
    pid_t pid;
    pid_t ppid;
    uint64_t start_ticks;
    struct run_account *run; /* of the node that it belongs to */
    LIST_ENTRY(account) in_run;
    bool seen;     /* in a reading of this tick */
    bool is_final; /* sonde has reaped it; `final` is valid */
    struct cpu_time own;
    struct cpu_time reaped;      /* of its children, at the last reading */
    struct cpu_time reaped_then; /* the same at the reading before */
    struct cpu_time debit;       /* of vanished children that `reaped` does not contain yet */
    struct cpu_time surplus;     /* credit of the last tick without a debit */
    struct cpu_time final;
    bool is_covered;             /* its exit and those of its children will be reported */
    struct cpu_time before;      /* of children that it had reaped before it was covered */
    unsigned unseen;             /* number of ticks in a row at which it was missing */
    bool is_settled;             /* vanished, and its time was passed on */
    unsigned unsettled_children; /* vanished at this tick, and must be settled before it */
};

/* The sums of one node and of the nodes in it. Each process is added to all its nodes at once, so
 * that a node can end without a loss for the nodes around it. */
struct run_account {
    const struct run_node *node;
    struct run_usage usage;
    struct cpu_time settled;   /* of ended processes */
    struct cpu_time passed_on; /* of those whose time is now in the account of an outer process */
    LIST_HEAD(, account) accounts;
    struct cpu_time tick_living;
    bool tick_is_rounded;
    int64_t tick_rss, tick_private, tick_shared_max, tick_processes;
};

struct ledger {
    pid_t own_pid;
    const struct run_node *root;           /* of this tick; NULL: all */
    struct map accounts;                   /* pid → struct account */
    struct map runs;                       /* by the node's address → struct run_account */
    struct VEC(struct account *) vanished; /* scratch list, reused from tick to tick */
};

static inline struct cpu_time add(struct cpu_time a, struct cpu_time b)
{
    return (struct cpu_time){a.total_ns + b.total_ns, a.user_ns + b.user_ns,
                             a.system_ns + b.system_ns};
}

static inline uint64_t difference_or_zero(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* Never below zero. */
static inline struct cpu_time subtract(struct cpu_time a, struct cpu_time b)
{
    return (struct cpu_time){difference_or_zero(a.total_ns, b.total_ns),
                             difference_or_zero(a.user_ns, b.user_ns),
                             difference_or_zero(a.system_ns, b.system_ns)};
}

static inline struct run_account *find_run(const struct ledger *ledger, const struct run_node *node)
{
    return map_get(&ledger->runs, (uint64_t)(uintptr_t)node);
}

/* Returns the account of the node around this one, or NULL. */
static inline struct run_account *outer_of(const struct ledger *ledger,
                                           const struct run_account *account)
{
    struct run_account *outer = NULL;

    for (const struct run_node *node = account->node->outer; node && !outer; node = node->outer)
        outer = find_run(ledger, node);
    return outer;
}

/* Whether the node is part of this tick. */
static inline bool is_read(const struct ledger *ledger, const struct run_account *run)
{
    return !ledger->root || run_node_is_within(run->node, ledger->root);
}

static inline void mark_incomplete(struct run_account *run)
{
    run->usage.cpu_is_incomplete = run->usage.rss_is_incomplete = true;
}

/* Whether the node is a run whose ended processes may be reaped by those of outer runs. */
static inline bool awaits_parent_cover(const struct run_node *node)
{
    return node == &node->run->node && node->run->awaits_parent_cover;
}

/* The time of the process and of all children that it has reaped, or should have, except those
 * whose exits are reported. */
struct cpu_time ledger_account_total(const struct account *account);

/* Makes the sums of this tick, with those of ended processes, the usage of the node. */
void ledger_update_usage(struct run_account *run);

/* Returns the account of the node, opened if needed, with those of the nodes around it, so that a
 * node never exists without them. NULL without memory. */
struct run_account *ledger_open_run(struct ledger *ledger, const struct run_node *node);
