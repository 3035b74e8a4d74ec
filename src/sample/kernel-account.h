/* The exact account of runs by sonde's BPF programs. The forks of a tagged member inherit its tag,
 * and so its run. The end of a covered member is reported with its exact usage, which is added to
 * its run then.
 *
 * Once a process is covered, the time of children that it reaps later is not added again; the time
 * of those that it reaped before counts as its own. So for every child it must be known whether it
 * was reaped before:
 * - A fork is covered at once only if its parent is. The children of other processes are part of
 *   what these reap.
 * - All processes of a run, and of runs started in it, are covered together, and only while they
 *   are calm: none was forked, ended or reaped between two readings, with the events drained in
 *   between. A process that is there then was not reaped, one that is missing was, and a fork that
 *   is reported later happened later.
 * A run that is registered before the one it was started in may be covered before it, see
 * kernel_account_set_parent(). A run that is never calm is not covered: its ended processes count
 * as reaped time of their parents. */
#pragma once

#include "base/vec.h"
#include "jobs/registry.h"
#include "probe/bpf/kernel-probe.h"
#include "sample/collector.h"

/* Valid without `kernel`: then there are no events. */
struct kernel_account {
    struct kernel_probe *kernel; /* NULL: none; all three are borrowed */
    struct registry *registry;
    struct collector *collector;
    struct VEC(pid_t) pids;
    struct VEC(const struct run *) restless; /* outermost runs that were not calm */
    unsigned readings;                       /* the number of the last reading */
};

void kernel_account_done(struct kernel_account *account);

/* Return whether the kernel reports forks and ends, and whether the ends have the exact usage. */
bool kernel_account_has_events(const struct kernel_account *account);
bool kernel_account_has_exact_ends(const struct kernel_account *account);

/* Records an event of a member. The fork of a covered process, or of one without a run, is covered
 * at once, and counted at its end. Returns 0 or -ENOMEM. */
int kernel_account_add_event(struct kernel_account *account, struct member *member,
                             const struct lifecycle_event *event);

/* Notes that the run was started in `parent`, which was registered later; see
 * registry_set_parent(). Ends in the run count for the runs above it once these are covered: until
 * then their processes may reap them. Returns 0 or -ENOMEM. */
int kernel_account_set_parent(struct kernel_account *account, struct run *run,
                              struct run_node *parent);

/* Tags members that have no tag or that of another run. Returns how many. */
int kernel_account_tag(struct kernel_account *account);

/* The next reading is not compared with the previous one. */
void kernel_account_begin(struct kernel_account *account);

/* Call it before a snapshot: the processes whose exit is being reported do not count as lost. */
void kernel_account_await_ends(struct kernel_account *account);

/* Adds a reading of all members that are not covered. Covers those whose runs were calm since the
 * previous reading, and adds the usage of those of them that have ended. Returns 1 if none is left,
 * 0 if some are (the events must be drained before the next reading), or -ENOMEM. */
int kernel_account_add_readings(struct kernel_account *account, const struct readings *readings);

/* Tags and reads the members that are not covered, and calls kernel_account_add_readings(). Returns
 * the same, or another negative errno. */
int kernel_account_cover(struct kernel_account *account);
