/* What the programs in the kernel hand to sonde: one definition for both sides, of fixed widths. */
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

/* One walk fills at most so many, in a quarter of a millisecond, or one if all of it is cold; the
 * next goes on behind the last one, which has to be found again. */
#define PROCESS_CHUNK 1024

/* So many records there are: each walk fills its own part of them, as long as they last. A process
 * whose record is still there, and that has slept since, is not read in full again. */
#define PROCESS_RECORDS (4 * PROCESS_CHUNK)

/* … but every so many readings: others may have set its limits meanwhile, or opened a file in a
 * table of descriptors that they share with it. */
#define FULL_READING_EVERY 16

struct process_record {
    /* who it is, and whether it has run */
    u64 address;       /* of the task: where the next walk goes on */
    u64 start_boot_ns; /* with the pid, the identity */
    u64 first_cpu_ns;  /* of the first thread alone */
    u32 threads;
    /* what others can do to it */
    u32 tag; /* of its run; 0: none */
    s32 ppid;
    u32 state, exit_state; /* of the first thread, or of one that lives if that has ended */
    u32 has_memory;
    s64 rss_pages, shared_pages;
    u64 peak_pages; /* as the kernel has noted it, which may be less than rss_pages */
    u64 vsize_pages;
    u64 mono_ns; /* when cpu_ns was read */
    /* the rest */
    s32 pid;
    u32 uid;
    u64 cpu_ns;  /* by the scheduler, all threads */
    u64 user_ns; /* by ticks, as are the next */
    u64 system_ns;
    u64 told_user_ns; /* what the kernel has last told others of them: it never goes back */
    u64 told_system_ns;
    u64 reaped_user_ns; /* of children that were waited for */
    u64 reaped_system_ns;
    u64 fd_limit;
    u64 read_bytes, write_bytes;
    u64 arg_start; /* moves with every exec */
    u32 open_fds;
    u32 ignores_sigchld;
    u32 is_kernel_thread;
    u32 is_ending; /* its last thread is on its way out, or has gone */
    char name[TASK_NAME_SIZE];
};
STATIC_SIZE(process_record, 216);

/* Where a walk begins, and what came of it. */
struct walk_request {
    u64 after_address;       /* behind this task; 0: at the beginning */
    u64 after_start_boot_ns; /* … or, if that is gone, behind all that started no later; 0: don't */
    u32 limit;
    u32 first;    /* of the records that are filled */
    u32 reading;  /* its number: whose turn it is to be read in full */
    u32 count;    /* that were filled */
    u32 is_found; /* the place to begin at */
    u32 is_end;   /* nothing is left */
    u32 total;    /* processes that were stepped over or filled */
    u32 padding;
};
STATIC_SIZE(walk_request, 48);

/* ---- system calls ---- */

/* A call is its number; that of a 32-bit program on a 64-bit kernel, which numbers them otherwise,
 * is its number and CALL_COMPAT. What is out of range is CALL_OTHER. */
#define CALL_COMPAT 1024
#define CALL_OTHER  (CALL_COMPAT - 1)
#define CALL_COUNT  (2 * CALL_COMPAT)
#define CALL_NONE   0xffffffffU

/* One look fills at most so many. */
#define THREAD_CHUNK 2048

struct thread_record {
    s32 pid;
    u32 call;      /* CALL_NONE: it is in none */
    u32 is_on_cpu; /* then it may have returned from the call already */
    u32 padding;
    u64 user_ns, system_ns; /* by ticks, of the thread's whole life */
};
STATIC_SIZE(thread_record, 32);

/* Where a look at threads begins, and where it ended. */
struct thread_request {
    u32 pid_count;
    u32 at_pid;    /* of these */
    u32 at_thread; /* of that one */
    u32 count;     /* that were filled */
    u32 seen;      /* threads of the process that it is at: while it looks */
    u32 padding;
};
STATIC_SIZE(thread_request, 24);

/* What a process has called, and how often. */
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

/* What is known of a thread that is counted. Written by sonde for the first ones. */
struct call_state {
    u32 generation; /* of the counting; of an earlier one: it is not counted any more */
    u32 call;
    u64 since_ns;       /* 0: it is in none */
    u32 waits_for_exec; /* what it does before is not the program's */
    u32 padding;
};
STATIC_SIZE(call_state, 24);

/* ---- what happens to processes ---- */

/* Of a command line; what is longer is cut. */
#define COMMAND_BYTES 504

enum kernel_event_kind {
    KERNEL_FORK = 1,
    KERNEL_EXEC,
    KERNEL_EXIT, /* the last thread is on its way out: all but the last slice of CPU time is known
                  */
    KERNEL_DEAD, /* it has left the CPU for good: now that is known, too */
    KERNEL_SIGNAL,
    KERNEL_OOM,
    KERNEL_CALLS, /* what a process has called, where that is counted: before its KERNEL_EXIT */
};

struct kernel_event {
    u16 kind;
    u16 padding;
    u32 tag; /* of the run; 0: none */
    u64 mono_ns;
    s32 pid; /* of whom it happens to; on fork, the child */
    s32 tid;
};
STATIC_SIZE(kernel_event, 24);

struct kernel_fork {
    struct kernel_event head;
    s32 parent_pid;
    u32 parent_tag;
    u64 start_boot_ns;
    char name[TASK_NAME_SIZE];
};
STATIC_SIZE(kernel_fork, 56);

struct kernel_exec {
    struct kernel_event head;
    u64 start_boot_ns;
    char name[TASK_NAME_SIZE];
    u32 length;
    u32 padding;
    char command[COMMAND_BYTES]; /* arguments as they lie in memory, a NUL after each */
};
STATIC_SIZE(kernel_exec, 560);

struct kernel_exit {
    struct kernel_event head;
    u64 start_boot_ns;
    u64 other_cpu_ns; /* without the last thread's, which KERNEL_DEAD brings */
    u64 user_ns, system_ns;
    s64 peak_pages; /* of the program it ran last; -1: unknown */
    u64 read_bytes, write_bytes;
    s32 wait_status;
    s32 parent_pid;
    u32 is_exact; /* a KERNEL_DEAD follows */
    u32 padding;
    char name[TASK_NAME_SIZE];
};
STATIC_SIZE(kernel_exit, 112);

struct kernel_dead {
    struct kernel_event head;
    u64 start_boot_ns;
    u64 last_cpu_ns;
};
STATIC_SIZE(kernel_dead, 40);

struct kernel_signal {
    struct kernel_event head;
    s32 number;
    s32 code;
    s32 sender_pid; /* 0: the kernel */
    u32 sender_uid;
    char sender_name[TASK_NAME_SIZE];
};
STATIC_SIZE(kernel_signal, 56);

struct kernel_oom {
    struct kernel_event head;
    u64 start_boot_ns;
    u64 vsize_pages;
    s64 anon_pages, file_pages, shmem_pages;
    u32 uid;
    s32 score_adjust;
    s32 trigger_pid; /* whose wish for memory it was */
    u32 padding;
    char name[TASK_NAME_SIZE];
    char trigger_name[TASK_NAME_SIZE];
};
STATIC_SIZE(kernel_oom, 112);

/* More come in several events. */
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
    struct kernel_call items[CALLS_AT_ONCE]; /* as many as there are */
};
STATIC_SIZE(kernel_calls, 40 + CALLS_AT_ONCE * 32);
