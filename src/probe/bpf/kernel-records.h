/* The records that the BPF programs pass to sonde: one definition for both sides, with fixed
 * widths. */
#pragma once

#ifdef __bpf__
#include "probe/bpf/kernel-types.h"
#else
#include <assert.h>
#include <stdint.h>
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;
#define TASK_NAME_SIZE 16
#endif

#define STATIC_SIZE(type, bytes) _Static_assert(sizeof(struct type) == (bytes), "both sides agree")

/* ---- processes ---- */

/* Maximum per walk, which takes 0.25 ms, or 1 ms with cold caches. The next walk continues after
 * the last process, which it has to find again. */
#define PROCESS_CHUNK 1024

/* Total number of records: each walk fills its own part while there is room. A process whose record
 * is still present, and that has slept since, is not read completely again. */
#define PROCESS_RECORDS (4 * PROCESS_CHUNK)

/* A sleeping process is still read completely once in this many readings: another process may have
 * changed its limits, or opened a file in a shared table of descriptors. */
#define FULL_READING_EVERY 16

struct process_record {
    /* its identity, and whether it has run */
    u64 address;       /* of the task: where the next walk continues */
    u64 start_boot_ns; /* with the pid, the identity */
    u64 first_cpu_ns;  /* of the first thread only */
    u32 threads;
    /* what can change while it sleeps */
    u32 tag; /* of its run; 0: none */
    s32 ppid;
    u32 state, exit_state; /* of the first thread, or of a live one if that has ended */
    u32 has_memory;
    s64 rss_pages, shared_pages, shmem_pages;
    u64 peak_pages; /* as the kernel has recorded it; may be less than rss_pages */
    u64 vsize_pages;
    u64 mono_ns; /* when cpu_ns was read */
    /* the rest */
    s32 pid;
    u32 uid;
    u64 cpu_ns;  /* by the scheduler, all threads */
    u64 user_ns; /* in ticks, like the following ones */
    u64 system_ns;
    u64 reported_user_ns; /* the values that the kernel last reported; they never decrease */
    u64 reported_system_ns;
    u64 reaped_user_ns; /* of reaped children */
    u64 reaped_system_ns;
    u64 fd_limit;
    u64 read_bytes, write_bytes;
    u64 reaped_read_bytes, reaped_write_bytes;
    u64 arg_start; /* changes with every exec */
    u64 memory;    /* address of its memory map, which processes can share */
    u64 faults;
    u32 open_fds;
    u32 ignores_sigchld;
    u32 is_kernel_thread;
    u32 is_ending; /* its last thread is exiting or gone */
    u32 is_forked; /* it has not called exec */
    u32 padding;
    char name[TASK_NAME_SIZE];
};
STATIC_SIZE(process_record, 264);

/* Where a walk begins, and its result. */
struct walk_request {
    u64 after_address;       /* begin after this task; 0: at the first */
    u64 after_start_boot_ns; /* if that task is gone, after all that started no later; 0: do not */
    u32 limit;
    u32 first;   /* index of the first record to fill */
    u32 reading; /* number of the reading: decides which processes are read completely */
    u32 count;   /* records filled */
    u32 is_end;  /* no process is left */
    u32 total;   /* processes skipped or filled */
    u32 is_list; /* only the listed pids; otherwise all processes */
    u32 padding;
};
STATIC_SIZE(walk_request, 48);

/* The threads of this process get this tag; 0: none. */
struct tag_request {
    s32 pid;
    u32 tag;
};
STATIC_SIZE(tag_request, 8);

/* ---- system calls ---- */

/* A call is identified by its number, plus CALL_COMPAT for a 32-bit program on a 64-bit kernel,
 * which has other numbers. A number out of range is CALL_OTHER. */
#define CALL_COMPAT 1024
#define CALL_OTHER  (CALL_COMPAT - 1)
#define CALL_COUNT  (2 * CALL_COMPAT)
#define CALL_NONE   0xffffffffU

/* Maximum number of records per run of the sampling program. */
#define THREAD_CHUNK 2048

struct thread_record {
    s32 pid;
    u32 call;      /* CALL_NONE: in no call */
    u32 is_on_cpu; /* if so, it may have returned from the call already */
    u32 padding;
    u64 user_ns, system_ns; /* in ticks, since the start of the thread */
};
STATIC_SIZE(thread_record, 32);

/* Where a run of the sampling program begins, and where it ended. */
struct thread_request {
    u32 pid_count;
    u32 at_pid;    /* index of the present process */
    u32 at_thread; /* index of its next thread */
    u32 count;     /* records filled */
    u32 seen;      /* threads of the present process seen so far */
    u32 padding;
};
STATIC_SIZE(thread_request, 24);

/* The key and value of the counts of one system call of one process. */
struct call_key {
    s32 pid;
    u32 call;
};
STATIC_SIZE(call_key, 8);

struct call_sum {
    u64 count;
    u64 ns; /* from entry to return */
    u64 errors;
};
STATIC_SIZE(call_sum, 24);

/* The state of a thread whose calls are counted. sonde writes that of the first threads. */
struct call_state {
    u32 generation; /* of the counting; a thread with an earlier one is not counted */
    u32 call;
    u64 since_ns;       /* 0: in no call */
    u32 waits_for_exec; /* calls before the next exec do not count */
    u32 padding;
};
STATIC_SIZE(call_state, 24);

/* ---- events ---- */

/* A longer command line is cut. */
#define COMMAND_BYTES 504

enum kernel_event_kind {
    KERNEL_FORK = 1,
    KERNEL_EXEC,
    KERNEL_EXIT, /* the last thread exits; its last slice of CPU time is not known yet */
    KERNEL_DEAD, /* it has left the CPU for the last time: the CPU time is final */
    KERNEL_SIGNAL,
    KERNEL_OOM,
    KERNEL_CALLS, /* counts of system calls of a process, just before its KERNEL_EXIT */
};

struct kernel_event {
    u16 kind;
    u16 padding;
    u32 tag; /* of the run; 0: none */
    u64 mono_ns;
    s32 pid; /* the affected process; on fork, the child */
    s32 tid;
};
STATIC_SIZE(kernel_event, 24);

struct kernel_fork {
    struct kernel_event head;
    s32 parent_pid;
    u32 shares_memory; /* with its parent, until an exec (vfork) */
    u64 start_boot_ns;
};
STATIC_SIZE(kernel_fork, 40);

struct kernel_exec {
    struct kernel_event head;
    u64 start_boot_ns;
    u64 former_pages; /* see kernel_exit */
    char name[TASK_NAME_SIZE];
    u32 length;
    u32 padding;
    char command[COMMAND_BYTES]; /* the arguments, each followed by a NUL */
};
STATIC_SIZE(kernel_exec, 568);

struct kernel_exit {
    struct kernel_event head;
    u64 start_boot_ns;
    /* These and the bytes are without those of the last thread, which KERNEL_DEAD contains. */
    u64 other_cpu_ns, other_user_ns, other_system_ns;
    s64 peak_pages;   /* since its last exec; -1: unknown */
    u64 former_pages; /* peak of all its memory so far, and of memory that it shared */
    u64 other_read_bytes, other_write_bytes;
    s32 wait_status;
    s32 parent_pid;
    u32 is_exact; /* a KERNEL_DEAD follows */
    u32 padding;
    char name[TASK_NAME_SIZE];
};
STATIC_SIZE(kernel_exit, 120);

struct kernel_dead {
    struct kernel_event head;
    u64 start_boot_ns;
    u64 last_cpu_ns, last_user_ns, last_system_ns;
    u64 reported_user_ns, reported_system_ns; /* of the process: see process_record */
    u64 last_read_bytes, last_write_bytes;
};
STATIC_SIZE(kernel_dead, 88);

struct kernel_signal {
    struct kernel_event head;
    s32 number;
    s32 code;
    s32 sender_pid; /* 0: the kernel */
    u32 sender_uid;
    u64 cpu_limit_sec; /* the limit of CPU time that was reached; 0: another reason */
    char sender_name[TASK_NAME_SIZE];
};
STATIC_SIZE(kernel_signal, 64);

struct kernel_oom {
    struct kernel_event head;
    u64 start_boot_ns;
    u64 vsize_pages;
    s64 anon_pages, file_pages, shmem_pages;
    u32 uid;
    s32 score_adjust;
    s32 trigger_pid; /* the process whose allocation triggered the kill */
    u32 padding;
    char name[TASK_NAME_SIZE];
    char trigger_name[TASK_NAME_SIZE];
};
STATIC_SIZE(kernel_oom, 112);

/* More calls need several events. */
#define CALLS_AT_ONCE 32

struct kernel_call {
    u32 call;
    u32 padding;
    struct call_sum sum;
};
STATIC_SIZE(kernel_call, 32);

struct kernel_calls {
    struct kernel_event head;
    u64 start_boot_ns;
    u32 count;
    u32 padding;
    struct kernel_call items[CALLS_AT_ONCE]; /* only `count` of them are sent */
};
STATIC_SIZE(kernel_calls, 40 + CALLS_AT_ONCE * 32);
