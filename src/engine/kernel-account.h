/* Members of runs as the kernel's own programs know them: tagged, so that what they fork belongs to
 * the run from its birth, and covered, so that each is counted with its end, told with all that it
 * has used.
 *
 * Once a process is covered, what it reaps is not counted any more, and what it had reaped before
 * is. So whether it had reaped a child by then must be known of every child:
 * - A process that is born is covered from its birth only if its parent is. The children of others
 *   are part of what these reap.
 * - All processes of a run, and of those that were started in it, are covered at once, and only
 *   while they are calm: none was born, has ended or was reaped from one look to the next, and the
 *   events were drained in between. A process that is there then was not reaped, one that is
 *   missing was, and one whose birth is reported later has been born since.
 * A run that is registered before the one it was started in may be covered before that one is, see
 * kernel_account_set_parent().
 * A run that is never calm stays as it is: its ends are counted by those who reap. */
#pragma once

#include "base/vec.h"
#include "jobs/registry.h"
#include "probe/bpf/kernel-probe.h"
#include "sample/collector.h"

/* Valid without `kernel`, which reports nothing then. */
struct kernel_account {
    struct kernel_probe *kernel; /* NULL: there is none; none of the three is the account's */
    struct registry *registry;
    struct collector *collector;
    struct VEC(pid_t) pids;
    struct VEC(const struct run *) restless; /* outermost runs */
    unsigned looks;                          /* that there have been */
};

void kernel_account_done(struct kernel_account *account);

/* Whether it tells of births and ends; and of these with what the process has used. */
bool kernel_account_has_events(const struct kernel_account *account);
bool kernel_account_has_exact_ends(const struct kernel_account *account);

/* Enters what has happened to a member: the child of one that is covered, or of one that belongs to
 * no run, is covered from its birth, and counted at its end. 0 or -ENOMEM. */
int kernel_account_note(struct kernel_account *account, struct member *member,
                        const struct lifecycle_event *event);

/* The run was started in `parent`, which came to be known after it; see registry_set_parent(). What
 * ends in the run counts for those above it once these are covered: until then their processes may
 * reap it. 0 or -ENOMEM. */
int kernel_account_set_parent(struct kernel_account *account, struct run *run, struct run *parent);

/* Tells the kernel of members that it does not know yet, or by another run. How many they were. */
int kernel_account_tag(struct kernel_account *account);

/* Forgets the last look: the next one is the first of its kind. */
void kernel_account_begin(struct kernel_account *account);

/* Covers those of a reading of all members that are listed whose runs are calm since the reading
 * before, and counts those of them that have ended. 1: none is left; 0: some are, and the
 * events must be drained before the next reading; or -ENOMEM. */
int kernel_account_enter(struct kernel_account *account, const struct readings *readings);

/* Tags and reads the members that are not covered yet, and enters what was read. As
 * kernel_account_enter(), or another negative errno; what is left is left for the next time. */
int kernel_account_cover(struct kernel_account *account);
