/* The nodes of the ledger: runs, and the runs that they were started in. */
#include <errno.h>
#include <stdlib.h>

#include "base/macros.h"
#include "model/field.h"
#include "sample/ledger-state.h"

static int open_run_account(struct ledger *ledger, const struct run_node *node)
{
    struct run_account *opened = calloc(1, sizeof(*opened));
    if (!opened)
        return -ENOMEM;
    *opened = (struct run_account){
        .node = node,
        .usage = {.peak_rss_bytes = INT_UNKNOWN,
                  .peak_total_bytes = INT_UNKNOWN,
                  .peak_unique_min_bytes = INT_UNKNOWN,
                  .peak_unique_bytes = INT_UNKNOWN,
                  .peak_processes = INT_UNKNOWN,
                  .rss_bytes = INT_UNKNOWN,
                  .unique_min_bytes = INT_UNKNOWN,
                  .unique_bytes = INT_UNKNOWN},
    };
    LIST_INIT(&opened->accounts);
    int r = map_put(&ledger->runs, (uint64_t)(uintptr_t)node, opened);
    if (r < 0)
        free(opened);
    return r;
}

struct run_account *ledger_open_run(struct ledger *ledger, const struct run_node *node)
{
    struct run_account *found = find_run(ledger, node);

    if (found)
        return found;
    for (const struct run_node *at = node->outer; at; at = at->outer)
        if (!find_run(ledger, at) && open_run_account(ledger, at) < 0)
            return NULL;
    return open_run_account(ledger, node) < 0 ? NULL : find_run(ledger, node);
}

void ledger_mark_incomplete(struct ledger *ledger)
{
    size_t position = 0;

    for (struct run_account *run; (run = map_next(&ledger->runs, &position));)
        mark_incomplete(run);
}

void ledger_move_ended(struct ledger *ledger, const struct run_node *node,
                       const struct run_node *from, const struct ended_usage *usage)
{
    const struct cpu_and_io time = {usage->cpu_ns, usage->user_ns, usage->system_ns,
                                    usage->read_bytes, usage->write_bytes};

    for (; node && !run_node_is_within(from, node); node = node->outer) {
        struct run_account *account = ledger_open_run(ledger, node);
        if (!account)
            continue;
        account->settled = add(account->settled, time);
        account->usage.peak_rss_bytes = MAX(account->usage.peak_rss_bytes, usage->peak_rss_bytes);
        account->usage.missing_peak_bytes =
            MAX(account->usage.missing_peak_bytes, usage->missing_peak_bytes);
        if (usage->is_incomplete)
            mark_incomplete(account);
    }
}

void ledger_miss_end(struct ledger *ledger, const struct run_node *node,
                     const struct run_node *parent)
{
    for (; node && !(parent && run_node_is_within(parent, node)); node = node->outer) {
        struct run_account *account = find_run(ledger, node);
        if (account)
            mark_incomplete(account);
    }
}

void ledger_miss_peak(struct ledger *ledger, const struct run_node *node,
                      const struct run_node *parent, int64_t most_bytes)
{
    for (; node && !(parent && run_node_is_within(parent, node)); node = node->outer) {
        struct run_account *account = find_run(ledger, node);
        if (account)
            account->usage.missing_peak_bytes = MAX(account->usage.missing_peak_bytes, most_bytes);
    }
}

static void raise_peaks(struct run_usage *usage, const struct run_usage *part)
{
    usage->peak_rss_bytes = MAX(usage->peak_rss_bytes, part->peak_rss_bytes);
    usage->missing_peak_bytes = MAX(usage->missing_peak_bytes, part->missing_peak_bytes);
    usage->peak_total_bytes = MAX(usage->peak_total_bytes, part->peak_total_bytes);
    usage->peak_unique_min_bytes = MAX(usage->peak_unique_min_bytes, part->peak_unique_min_bytes);
    usage->peak_unique_bytes = MAX(usage->peak_unique_bytes, part->peak_unique_bytes);
    usage->peak_processes = MAX(usage->peak_processes, part->peak_processes);
}

/* Time that was settled before is not added: processes of the new parent may have reaped some of
 * it, and how much is not known. */
int ledger_set_outer(struct ledger *ledger, const struct run_node *node,
                     const struct run_node *outer)
{
    const struct run_account *inner = find_run(ledger, node);

    if (!inner) /* open_run() will open the outer ones with it */
        return 0;
    for (const struct run_node *at = outer; at; at = at->outer)
        if (!find_run(ledger, at) && open_run_account(ledger, at) < 0)
            return -ENOMEM;
    bool misses_cpu =
        inner->usage.cpu_is_incomplete || inner->settled.total_ns || inner->passed_on.total_ns;
    for (const struct run_node *at = outer; at && at != node->outer; at = at->outer) {
        struct run_usage *usage = &find_run(ledger, at)->usage;
        usage->cpu_is_incomplete |= misses_cpu;
        usage->rss_is_incomplete |= inner->usage.rss_is_incomplete;
        usage->io_is_incomplete |= inner->usage.io_is_incomplete;
        raise_peaks(usage, &inner->usage);
    }
    return 0;
}

const struct run_usage *ledger_find(const struct ledger *ledger, const struct run_node *node)
{
    struct run_account *account = find_run(ledger, node);
    return account ? &account->usage : NULL;
}
