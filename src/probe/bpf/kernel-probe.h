/* The kernel collector: BPF programs that read all processes at very low cost, and report every
 * fork, exec, exit, signal and OOM kill as it happens.
 *
 * Needs CAP_BPF and CAP_PERFMON, the kernel's type information (BTF), and sonde in the initial pid
 * namespace. It consists of parts; if a kernel rejects some of them, the others work, and
 * kernel_probe_missing_parts() names the missing ones. It never stops or changes a process.
 *
 * Opening takes about 30 ms of CPU time and may run in a separate thread. Afterwards only one
 * thread may use the probe. */
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
    KERNEL_PART_EVENTS,    /* forks, execs, exits */
    KERNEL_PART_FINAL_CPU, /* the exact CPU time at exit */
    KERNEL_PART_SIGNALS,   /* with their senders */
    KERNEL_PART_OOM,
    KERNEL_PART_CALL_SAMPLES, /* the system call that each thread is in */
    KERNEL_PART_CALL_COUNTS,  /* counts of all system calls, on request */
    KERNEL_PART_COUNT,
};

/* The reason why there is no probe, or which parts are missing, as text for people. */
struct kernel_probe_error {
    char text[256];
};

struct kernel_probe_options {
    const char *proc_root; /* for command lines, and to check pids and start times */
    /* Events of all processes; otherwise only of tagged processes and their descendants. */
    bool wants_all;
    bool counts_calls; /* system calls may be counted later: else these programs are not loaded */
};

/* Loads the programs. Returns 0, or a negative errno with the reason in `error`. */
int kernel_probe_open(const struct kernel_probe_options *options, struct kernel_probe **ret,
                      struct kernel_probe_error *error);
void kernel_probe_close(struct kernel_probe *probe);
void kernel_probe_closep(struct kernel_probe **probe);

/* Returns whether sonde may load programs; if not, with the reason in `error`. A quick check that
 * loads nothing. */
bool kernel_probe_is_allowed(const char *proc_root, struct kernel_probe_error *error);

bool kernel_probe_has(const struct kernel_probe *probe, enum kernel_part part);
/* Returns a text that names the missing parts; "" if none is missing. */
const char *kernel_probe_missing_parts(const struct kernel_probe *probe);

/* ---- processes: like procfs_scan() and procfs_read_pids(), always with extras ---- */

int kernel_probe_scan(struct kernel_probe *probe, probe_depth_fn depth, void *context,
                      struct readings *out, size_t *ret_total);
/* Reads only these pids. With `are_all`, all other processes are gone, and the probe drops their
 * cached data. */
int kernel_probe_read_pids(struct kernel_probe *probe, const pid_t *pids, size_t count,
                           bool are_all, struct readings *out);

/* ---- events ---- */

/* Returns a descriptor, owned by the probe, that is readable when events are queued after
 * kernel_probe_sleep(). */
int kernel_probe_fd(const struct kernel_probe *probe);
/* Calls `on_event` for the queued events, in order, with one exception: an exit waits until its
 * final CPU time is known, and at most 1 s for the exits of its children. Returns 0, 1 if events
 * were lost, or a negative errno. */
int kernel_probe_drain(struct kernel_probe *probe, lifecycle_fn on_event, void *context);
/* Requests a wakeup at the next event of a tagged process, at an OOM kill, or when many other
 * events are queued. Returns false if an event is still pending: drain again soon. */
bool kernel_probe_sleep(struct kernel_probe *probe);
/* Returns whether the next such event will make the descriptor readable. False after an event has
 * done so, even if a drain has emptied the ring since. */
bool kernel_probe_sleeps(const struct kernel_probe *probe);
/* Returns whether the first part of the exit of the process was reported, and its rest was not. An
 * ending process that does not get the CPU can take long: its parent may have reaped it before. */
bool kernel_probe_awaits_end(const struct kernel_probe *probe, pid_t pid);
/* For a process that is known to have ended: if its exit is still pending, waits at most
 * `patience_ns` for the rest of it, then reports it and the pending exits of its descendants;
 * values that are still unknown stay unknown. */
void kernel_probe_settle(struct kernel_probe *probe, pid_t pid, uint64_t patience_ns,
                         lifecycle_fn on_event, void *context);
/* Returns the number of events lost because the ring was full. */
uint64_t kernel_probe_lost(const struct kernel_probe *probe);

/* ---- membership ---- */

/* Sets the tag that all later events of the process and of its later children carry; 0 removes it.
 * Returns 0 or a negative errno; -ESRCH if the process is gone. */
int kernel_probe_tag(struct kernel_probe *probe, pid_t pid, uint32_t tag);

/* ---- system calls ---- */

/* Samples all threads of the processes; omits processes that are gone. Returns 0 or a negative
 * errno. */
int kernel_probe_sample_calls(struct kernel_probe *probe, const pid_t *pids, size_t count,
                              thread_call_fn on_thread, void *context);

/* Starts or stops counting the calls of processes passed to kernel_probe_count_calls_of() and of
 * their later children. While it is on, every system call on the machine costs 0.25 µs more.
 * Stopping discards the counts. Returns 0 or a negative errno. */
int kernel_probe_count_calls(struct kernel_probe *probe, bool is_wanted);
bool kernel_probe_counts_calls(const struct kernel_probe *probe);

/* Whether the calls of a process before its next exec count. */
enum counting_start {
    COUNT_FROM_NOW,
    COUNT_FROM_EXEC,
};

/* Counts the calls of this process and of its later children. Returns 0 or a negative errno; -ESRCH
 * if the process is gone. */
int kernel_probe_count_calls_of(struct kernel_probe *probe, pid_t pid, enum counting_start start);
/* Stops counting the calls of this process; its children are still counted. */
void kernel_probe_stop_counting_calls_of(struct kernel_probe *probe, pid_t pid);

typedef void (*process_calls_fn)(void *context, pid_t pid, const struct syscall_sum *sum);

/* Reports the counts of live processes so far, in no order. The counts of an ended process come
 * with its exit event (lifecycle_event.calls). Returns 0 or a negative errno. */
int kernel_probe_read_calls(struct kernel_probe *probe, process_calls_fn on_sum, void *context);
/* Returns the number of calls that could not be counted or reported for lack of room. */
uint64_t kernel_probe_lost_calls(const struct kernel_probe *probe);
