/* System calls of runs. They are sampled at every tick, by the BPF programs or from /proc, which
 * costs the processes nothing; or the kernel counts them, for runs that request it. The counting
 * program is attached only while there is such a run. */
#pragma once

#include "base/vec.h"
#include "config/config.h"
#include "model/snapshot.h"
#include "probe/bpf/kernel-probe.h"
#include "sample/call-ledger.h"

/* Zero-initialised, it is empty; valid once `registry` is set. */
struct syscall_account {
    struct kernel_probe *kernel; /* NULL: none; borrowed, as are the next two */
    struct registry *registry;
    int proc_fd;                 /* /proc */
    enum syscalls_choice choice; /* `bpf`: all runs are counted; `strace`: tracers count */
    struct call_ledger ledger;
    struct VEC(pid_t) pids;
    int error;
    uint64_t lost_batches; /* of events, which may have contained the counts of ended processes */
};

void syscall_account_done(struct syscall_account *account);

/* Counts the run's calls from now on, those of its members and of their forks. `is_from_start`:
 * they have been counted since before the run's first exec. Returns 0 or a negative errno. */
int syscall_account_start_counting(struct syscall_account *account, const struct run *run,
                                   bool is_from_start);
/* Starts counting for new runs, and for members that are not counted yet. */
void syscall_account_catch_up(struct syscall_account *account);

/* Records an event of a member. Returns 0 or -ENOMEM. */
int syscall_account_add_event(struct syscall_account *account, struct member *member,
                              const struct lifecycle_event *event);

/* One tick: samples all members and fills the snapshot. Returns 0, or a negative errno with the
 * snapshot still valid. */
int syscall_account_fill(struct syscall_account *account, const struct moment *now,
                         uint64_t interval_ns, struct snapshot *snapshot);
void syscall_account_end_run(struct syscall_account *account, const struct run *run);
