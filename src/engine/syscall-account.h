/* System calls of runs. Sampled at every tick, which costs those who make them nothing: by the
 * kernel's own programs, or, where there are none, by /proc. Or counted, every one, in the kernel,
 * for runs that ask for it; what counts is attached only while there is such a run. */
#pragma once

#include "base/vec.h"
#include "config/config.h"
#include "model/snapshot.h"
#include "probe/bpf/kernel-probe.h"
#include "sample/call-ledger.h"

/* Zero-initialised is empty, and valid once there is a registry. */
struct syscall_account {
    struct kernel_probe *kernel; /* NULL: there is none. None of these is the account's */
    struct registry *registry;
    int proc_fd;                 /* /proc */
    enum syscalls_choice choice; /* `bpf`: all runs are counted; `strace`: others do it */
    struct call_ledger ledger;
    struct VEC(pid_t) pids;
    int error;
    uint64_t lost_batches; /* of events: what was counted of an end may have been in one */
};

void syscall_account_done(struct syscall_account *account);

/* The run's calls are counted from now on, those of its members and of all that they begin;
 * `is_whole`: they are already, since before its first process has executed its program. 0 or a
 * negative errno. */
int syscall_account_count(struct syscall_account *account, const struct run *run, bool is_whole);
/* Counts what is to be counted: new runs, and members that the kernel does not count yet. */
void syscall_account_catch_up(struct syscall_account *account);

/* What the kernel has told of a member. 0 or -ENOMEM. */
int syscall_account_note(struct syscall_account *account, struct member *member,
                         const struct lifecycle_event *event);

/* One tick: looks at all members, and enters what is known of them in the snapshot. 0 or a negative
 * errno, with the snapshot as good as without. */
int syscall_account_take(struct syscall_account *account, const struct moment *now,
                         uint64_t interval_ns, struct snapshot *snapshot);
/* The run is over. */
void syscall_account_end_run(struct syscall_account *account, const struct run *run);
