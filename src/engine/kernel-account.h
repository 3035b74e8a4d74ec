/* Members of runs as the kernel's own programs know them: tagged, so that what they fork belongs to
 * the run from its birth, and covered, so that each is counted with its end, told with all that it
 * has used. */
#pragma once

#include "base/vec.h"
#include "jobs/registry.h"
#include "probe/bpf/kernel-probe.h"
#include "sample/collector.h"

/* Zero-initialised is empty and valid: there is no kernel to tell of anything. */
struct kernel_account {
    struct kernel_probe *kernel; /* none of them is the account's */
    struct registry *registry;
    struct collector *collector;
    struct VEC(pid_t) pids;
    /* When members that were there before were counted as they stood: what had ended by then was
     * counted with them. */
    uint64_t counted_at_ns;
};

void kernel_account_done(struct kernel_account *account);

/* Whether it tells of births and ends; and of these with what the process has used. */
bool kernel_account_has_events(const struct kernel_account *account);
bool kernel_account_has_exact_ends(const struct kernel_account *account);

/* Enters what has happened to a member: whoever is born under the kernel's eyes is covered from the
 * beginning, and counted at the end. 0 or -ENOMEM. */
int kernel_account_note(struct kernel_account *account, struct member *member,
                        const struct lifecycle_event *event);

/* Tells the kernel of members that it does not know yet, or by another run. How many they were, or
 * -ENOMEM. */
int kernel_account_tag(struct kernel_account *account);

/* And counts those that are not covered yet as they stand now: from now on, they are told of. A
 * failure leaves them for the next time. */
void kernel_account_cover(struct kernel_account *account);
