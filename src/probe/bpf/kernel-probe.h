/* The kernel collector: programs of our own in the kernel that tell of every process at almost no
 * cost, and of every birth, program, end, signal and kill for memory as it happens.
 *
 * Needs CAP_BPF and CAP_PERFMON, the kernel's type information, and sonde in the initial pid
 * namespace. It is made of parts, and a kernel may refuse some of them: those that are there work
 * all the same, and why the others are not can be asked. Never stops or changes a process.
 *
 * Opening takes up to a tenth of a second of CPU; it may be done in a thread of its own. After that
 * a probe belongs to one thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/syscall-profile.h"
#include "probe/lifecycle.h"
#include "probe/procfs.h"
#include "probe/thread-call.h"

struct kernel_probe;

enum kernel_part {
    KERNEL_PART_PROCESSES, /* all processes in one pass */
    KERNEL_PART_EVENTS,    /* births, programs, ends */
    KERNEL_PART_FINAL_CPU, /* … with all the CPU time that they used */
    KERNEL_PART_SIGNALS,   /* with their senders */
    KERNEL_PART_OOM,
    KERNEL_PART_CALL_SAMPLES, /* the system call that each thread is in */
    KERNEL_PART_CALL_COUNTS,  /* all system calls counted, while somebody asks for it */
    KERNEL_PART_COUNT,
};

/* Why there is no probe, or a part of it is missing. */
struct kernel_refusal {
    char words[256];
};

struct kernel_probe_options {
    const char *proc_root; /* NULL: /proc; command lines come from there */
    /* Events of all processes; else of those that were tagged, and of what these have forked. */
    bool wants_all;
};

/* 0 or a negative errno, with the reason in words. */
int kernel_probe_open(const struct kernel_probe_options *options, struct kernel_probe **ret,
                      struct kernel_refusal *refusal);
void kernel_probe_close(struct kernel_probe *probe);
void kernel_probe_closep(struct kernel_probe **probe);

/* Whether the user may load programs at all: a quick look, without loading anything. */
bool kernel_probe_is_allowed(struct kernel_refusal *refusal);

bool kernel_probe_has(const struct kernel_probe *probe, enum kernel_part part);
/* Why parts are missing; "" if none is. */
const char *kernel_probe_refusal(const struct kernel_probe *probe);

/* ---- processes: as procfs_scan() and procfs_read_pids() have it, extras always included ---- */

int kernel_probe_scan(struct kernel_probe *probe, probe_depth_fn depth, void *context,
                      struct readings *out, size_t *ret_total);
/* `are_all`: the others are gone, and nothing more is remembered of them. */
int kernel_probe_read_pids(struct kernel_probe *probe, const pid_t *pids, size_t count,
                           bool are_all, struct readings *out);

/* ---- events ---- */

/* Readable when there is something to drain, once kernel_probe_sleep() was called. */
int kernel_probe_fd(const struct kernel_probe *probe);
/* Hands what has gathered to `on_event`, in its order, but that an end waits for its last slice of
 * CPU time to be known, and a second at most for the ends of its children. 0; 1 if events were
 * lost; or a negative errno. */
int kernel_probe_drain(struct kernel_probe *probe, lifecycle_fn on_event, void *context);
/* Asks to be woken at the next event of one with a tag, at a kill for memory, or when much has
 * gathered of the others. False: something is still to come, look again soon. */
bool kernel_probe_sleep(struct kernel_probe *probe);
/* Whether the next such event will make the fd readable. False after one has, even if a drain has
 * emptied the ring since and the fd is not readable any more. */
bool kernel_probe_sleeps(const struct kernel_probe *probe);
/* An end that waits, of a process that is said to be over, is waited for for that long at most, and
 * then told with those of its descendants: what is unknown of them stays so. */
void kernel_probe_settle(struct kernel_probe *probe, pid_t pid, uint64_t patience_ns,
                         lifecycle_fn on_event, void *context);
/* Events that there was no room for. */
uint64_t kernel_probe_lost(const struct kernel_probe *probe);

/* ---- membership ---- */

/* From now on events of the process, and of all that it forks, carry the tag; 0: none any more. 0
 * or a negative errno; -ESRCH: it is gone. */
int kernel_probe_tag(struct kernel_probe *probe, pid_t pid, uint32_t tag);

/* ---- system calls ---- */

/* Looks at all threads of the processes; those that are gone are left out. 0 or a negative errno.
 */
int kernel_probe_sample_calls(struct kernel_probe *probe, const pid_t *pids, size_t count,
                              thread_call_fn on_thread, void *context);

/* Counts the calls of processes that it is told of from now on, with all that these begin; or no
 * longer. While it counts, every call on the machine costs a quarter of a microsecond more. What
 * was counted before is forgotten. 0 or a negative errno. */
int kernel_probe_count_calls(struct kernel_probe *probe, bool is_wanted);
bool kernel_probe_counts_calls(const struct kernel_probe *probe);

/* Whether what a process does before it next executes a program counts. */
enum counting_start {
    COUNT_FROM_NOW,
    COUNT_FROM_EXEC,
};

/* 0 or a negative errno; -ESRCH: it is gone. */
int kernel_probe_count_calls_of(struct kernel_probe *probe, pid_t pid, enum counting_start start);
/* Not any more; what it has begun is counted on. */
void kernel_probe_leave_calls_of(struct kernel_probe *probe, pid_t pid);

typedef void (*process_calls_fn)(void *context, pid_t pid, const struct syscall_sum *sum);

/* What living processes have called so far, in no order. Those that have ended are told of with
 * their end (lifecycle_event.calls). 0 or a negative errno. */
int kernel_probe_read_calls(struct kernel_probe *probe, process_calls_fn on_sum, void *context);
/* Calls that there was no room to count, or to tell of. */
uint64_t kernel_probe_lost_calls(const struct kernel_probe *probe);
