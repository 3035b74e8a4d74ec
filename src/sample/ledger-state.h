/* The state of the ledger, shared by ledger.c (processes) and ledger-nodes.c (runs). */
#pragma once

#include <sys/queue.h>

#include "base/map.h"
#include "base/vec.h"
#include "sample/ledger.h"

/* What a process had before it forked the first of its present copies. */
struct copies {
    unsigned count;
    int64_t anon_bytes;
    uint64_t growth;
};

/* The memory of one process, at its last reading: see ledger-memory.c. A copy is a process that has
 * not called exec since its fork. */
struct account_memory {
    bool is_present;  /* at this tick; a zombie has none */
    bool was_present; /* at any tick */
    bool is_new;      /* at no tick before */
    bool is_copy;
    int64_t rss_bytes;
    int64_t anon_bytes;
    int64_t shared_bytes;
    int64_t shmem_bytes; /* INT_UNKNOWN: not known */
    int64_t peak_bytes;
    uint64_t arg_start;
    uint64_t memory_id;
    uint64_t growth;     /* the most that page faults can have added */
    uint64_t growth_min; /* the same with the huge pages that were made before the tick */
    uint64_t growth_at_start;
    /* before its last reading, and of its present program */
    int64_t anon_then;
    uint64_t growth_then;
    /* a copy: its parent, as it was before the fork */
    pid_t parent_pid; /* 0: not known */
    uint64_t parent_start;
    int64_t parent_anon;
    uint64_t parent_growth;
    int64_t inherited_max; /* INT_UNKNOWN: not known */
    struct copies copies;  /* of it, at this tick */
};

/* The memory of the processes of a node at one tick. */
struct memory_sums {
    int64_t rss_bytes;
    int64_t anon_bytes, anon_max;
    int64_t own_bytes; /* anonymous, certainly of one process only */
    int64_t shared_bytes, shared_max;
    int64_t file_max, shmem_max; /* parts of the shared memory, where they are known */
    int64_t saved_bytes;         /* inherited by copies, and so perhaps counted twice */
    int64_t lost_bytes;          /* the part of it that the parents may not have any more */
    uint64_t growth;
};

struct memory_interval {
    int64_t min_bytes, max_bytes;
};

/* The account of one process. */
struct account {
    pid_t pid;
    pid_t ppid;
    uint64_t start_ticks;
    struct run_account *run; /* of the node that it belongs to */
    LIST_ENTRY(account) in_run;
    bool seen;     /* in a reading of this tick */
    bool is_final; /* sonde has reaped it; `final` is valid */
    struct cpu_and_io own;
    struct cpu_and_io reaped;      /* of its children, at the last reading */
    struct cpu_and_io reaped_then; /* the same at the reading before */
    struct cpu_and_io debit;       /* of vanished children that `reaped` does not contain yet */
    struct cpu_and_io surplus;     /* credit of the last tick without a debit */
    struct cpu_and_io final;
    bool io_is_unknown;          /* at the last reading, or there was none */
    bool is_covered;             /* its exit and those of its children will be reported */
    struct cpu_and_io before;    /* of children that it had reaped before it was covered */
    int64_t peak;                /* the largest that was observed; 0: none */
    int64_t peak_before;         /* as of when it entered its node late; 0: it did not */
    unsigned unseen;             /* number of ticks in a row at which it was missing */
    bool is_settled;             /* vanished, and its time was passed on */
    unsigned unsettled_children; /* vanished at this tick, and must be settled before it */
    struct account_memory memory;
};

/* The sums of one node and of the nodes in it. Each process is added to all its nodes at once, so
 * that a node can end without a loss for the nodes around it. */
struct run_account {
    const struct run_node *node;
    struct run_usage usage;
    struct cpu_and_io settled; /* of ended processes */
    struct cpu_and_io before; /* that processes had used before they entered; not part of the sum */
    struct cpu_and_io passed_on; /* of those whose time is now in the account of an outer process */
    LIST_HEAD(, account) accounts;
    struct cpu_and_io tick_living;
    bool tick_is_rounded, tick_io_is_unknown;
    int64_t tick_processes;
    struct memory_sums tick_memory;
    /* The upper peak if the memory is measured: of the measured ticks, and of later others. */
    int64_t measured_peak, unmeasured_peak;
};

struct ledger {
    pid_t own_pid;
    const struct run_node *root;           /* of this tick; NULL: all */
    const struct run_node *measured;       /* its memory is measured; NULL: none */
    struct map accounts;                   /* pid → struct account */
    struct map runs;                       /* by the node's address → struct run_account */
    struct VEC(struct account *) vanished; /* scratch list, reused from tick to tick */
    struct memory_bounds bounds;           /* the latest */
    struct memory_bounds bounds_then, bounds_before; /* of the full ticks before, the later first */
    bool bounds_are_of_tick;                         /* the latest are those of a full tick */
};

static inline struct cpu_and_io add(struct cpu_and_io a, struct cpu_and_io b)
{
    return (struct cpu_and_io){a.total_ns + b.total_ns, a.user_ns + b.user_ns,
                               a.system_ns + b.system_ns, a.read_bytes + b.read_bytes,
                               a.write_bytes + b.write_bytes};
}

static inline uint64_t difference_or_zero(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* Never below zero. */
static inline struct cpu_and_io subtract(struct cpu_and_io a, struct cpu_and_io b)
{
    return (struct cpu_and_io){difference_or_zero(a.total_ns, b.total_ns),
                               difference_or_zero(a.user_ns, b.user_ns),
                               difference_or_zero(a.system_ns, b.system_ns),
                               difference_or_zero(a.read_bytes, b.read_bytes),
                               difference_or_zero(a.write_bytes, b.write_bytes)};
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
struct cpu_and_io ledger_account_total(const struct account *account);

/* Makes the sums of this tick, with those of ended processes, the usage of the node. */
void ledger_update_usage(const struct ledger *ledger, struct run_account *run);

/* Returns the account of the node, opened if needed, with those of the nodes around it, so that a
 * node never exists without them. NULL without memory. */
struct run_account *ledger_open_run(struct ledger *ledger, const struct run_node *node);

/* Records the memory of a process that was read. */
void ledger_observe_memory(const struct ledger *ledger, struct account *account,
                           const struct process_reading *reading);
/* Adds the memory of all processes of this tick to the sums of their nodes. */
void ledger_sum_memory(struct ledger *ledger);
struct memory_interval ledger_memory(const struct ledger *ledger, const struct memory_sums *sums);
