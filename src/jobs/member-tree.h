/* Who has forked whom, of the members of all runs. For the registry alone.
 *
 * By this tree a process that is registered takes along what it has forked. When a member goes, its
 * children are its parent's, so that a grandchild is still found after the process between is gone.
 * It is a tree of entries, not of pids, which change hands, and it says nothing about runs: those
 * are a member's own. */
#pragma once

#include <sys/queue.h>

#include "jobs/registry.h"

struct member_entry {
    struct member member;    /* what others see; first, so that it can be found by that */
    uint64_t expected_ticks; /* with which it was told of; 0: with none */
    bool is_registered;      /* by itself */
    bool awaits_fork;        /* its own birth may still be told of */
    bool by_foster;          /* it belongs as a child of the foster parent */
    bool is_not_root;        /* it has the pid of its run's first process and came after that */
    bool is_leaving;
    TAILQ_ENTRY(member_entry) by_age;
    TAILQ_ENTRY(member_entry) in_run;

    /* the tree */
    struct member_entry *parent; /* NULL: no member */
    LIST_HEAD(, member_entry) children;
    LIST_ENTRY(member_entry) siblings;
};

/* Puts an entry that has no parent below one, if that is not below it itself: a reading that is not
 * of one moment may tell of two that are each other's parents. NULL: it stays where it is. */
void member_tree_join(struct member_entry *entry, struct member_entry *parent);
void member_tree_leave(struct member_entry *entry);

/* Steps from `at`, first `top` itself, through those below `top` that are in `run` and `sheet_num`
 * because it is, parents before their children; NULL at the end. What was registered itself, or is
 * elsewhere, is passed over with all below it. Where `at` itself is does not matter any more. */
struct member_entry *member_tree_next_heir(const struct member_entry *top, struct member_entry *at,
                                           const struct run *run, int64_t sheet_num);
