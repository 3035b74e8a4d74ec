/* The tree of parents and children over the members of all runs. Used only by the registry.
 *
 * When a process is registered, the tree shows which descendants move with it. When a member
 * leaves, its children become its parent's, so that a grandchild is still found. The tree links
 * entries, not pids, because pids are reused. */
#pragma once

#include <sys/queue.h>

#include "jobs/registry.h"

struct member_entry {
    struct member member;    /* the public part; first, so that the entry can be found from it */
    uint64_t expected_ticks; /* the start time that was reported; 0: none */
    bool is_registered;      /* explicitly, not inherited */
    bool awaits_fork;        /* its fork event may still come */
    bool by_foster;          /* it is a member as a child of the foster parent */
    bool is_not_root;        /* a later process with the pid of its run's first process */
    bool is_leaving;
    TAILQ_ENTRY(member_entry) by_age;
    TAILQ_ENTRY(member_entry) in_run;

    /* the tree */
    struct member_entry *parent; /* NULL: no member */
    LIST_HEAD(, member_entry) children;
    LIST_ENTRY(member_entry) siblings;
};

/* Makes `parent` the parent of an entry without one. Does nothing if `parent` is NULL, or is itself
 * below the entry: readings at different times may show two processes as parents of each other. */
void member_tree_join(struct member_entry *entry, struct member_entry *parent);
/* Removes the entry; its children become its parent's. */
void member_tree_leave(struct member_entry *entry);

/* Iterates over the descendants of `top` that have inherited `run` and `sheet_num` from it, parents
 * before their children: start with `at` == `top`; returns NULL at the end. Skips an entry that was
 * registered explicitly, or is in another run or step, with its whole subtree. The caller may have
 * moved `at` to another run. */
struct member_entry *member_tree_next_inherited(const struct member_entry *top,
                                                struct member_entry *at, const struct run *run,
                                                int64_t sheet_num);
