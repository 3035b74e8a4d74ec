/* The kernel types that sonde's programs use, each with only the members they access.
 *
 * A generated vmlinux.h is not needed: libbpf finds the offset of each member at load time in the
 * type information of the running kernel (CO-RE), so that the order of members does not matter
 * here. bpf_core_field_exists() guards a member that a kernel may lack. */
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char s8;
typedef short s16;
typedef int s32;
typedef long long s64;

/* needed by libbpf's headers */
typedef u8 __u8;
typedef u16 __u16;
typedef u32 __u32;
typedef u64 __u64;
typedef s8 __s8;
typedef s16 __s16;
typedef s32 __s32;
typedef s64 __s64;
typedef u16 __be16;
typedef u32 __be32;
typedef u64 __be64;
typedef u16 __sum16;
typedef u32 __wsum;

typedef int pid_t;
typedef u32 uid_t;
typedef _Bool bool;
#define true 1
#define false 0
#define NULL ((void *)0)

enum bpf_map_type {
    BPF_MAP_TYPE_HASH = 1,
    BPF_MAP_TYPE_ARRAY = 2,
    BPF_MAP_TYPE_PERCPU_ARRAY = 6,
    BPF_MAP_TYPE_RINGBUF = 27,
    BPF_MAP_TYPE_TASK_STORAGE = 29,
};

enum {
    BPF_ANY = 0,
    BPF_NOEXIST = 1,
    BPF_F_NO_PREALLOC = 1,
    BPF_F_MMAPABLE = 1024,
    BPF_LOCAL_STORAGE_GET_F_CREATE = 1,
    BPF_RB_NO_WAKEUP = 1,
    BPF_RB_FORCE_WAKEUP = 2,
    BPF_RB_AVAIL_DATA = 0,
    BPF_TASK_ITER_ALL_PROCS = 0,
    BPF_TASK_ITER_PROC_THREADS = 2,
};

/* include/linux/mm_types_task.h */
enum {
    MM_FILEPAGES,
    MM_ANONPAGES,
    MM_SWAPENTS,
    MM_SHMEMPAGES,
};

/* include/linux/sched.h, include/linux/sched/signal.h, include/uapi/asm-generic */
#define PF_FORKNOEXEC     0x00000040
#define PF_KTHREAD        0x00200000
#define TASK_DEAD         0x00000080
#define SIGNAL_GROUP_EXIT 0x00000004
#define SIGCHLD_NUMBER    17
#define SA_NOCLDWAIT      2
#define RLIMIT_CPU        0
#define RLIMIT_NOFILE     7
#define TASK_NAME_SIZE    16
#define PF_EXITING        0x00000004
#define PF_IO_WORKER      0x00000010
#define PF_USER_WORKER    0x00004000 /* a thread of the kernel's that looks like the process's own */
#define TASK_HALTED       0x0000000c /* stopped, or by a tracer */

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct list_head {
    struct list_head *next, *prev;
};

typedef struct {
    int counter;
} atomic_t;

typedef struct {
    uid_t val;
} kuid_t;

struct cred {
    kuid_t uid;
};

/* exact since Linux 6.2: the sum over all CPUs */
struct percpu_counter {
    s64 count;
    s32 *counters;
};

struct mm_struct {
    struct {
        unsigned long hiwater_rss;
        unsigned long total_vm;
        unsigned long arg_start, arg_end;
        struct percpu_counter rss_stat[4];
    };
};

struct fdtable {
    unsigned int max_fds;
    unsigned long *open_fds;
};

struct files_struct {
    struct fdtable *fdt;
};

struct task_io_accounting {
    u64 read_bytes;
    u64 write_bytes;
};

struct prev_cputime {
    u64 utime, stime;
};

struct rlimit {
    unsigned long rlim_cur, rlim_max;
};

typedef struct {
    s64 counter;
} atomic64_t;

struct task_cputime_atomic {
    atomic64_t utime, stime;
};

struct thread_group_cputimer {
    struct task_cputime_atomic cputime_atomic;
};

struct signal_struct {
    atomic_t live;
    int nr_threads;
    struct list_head thread_head;
    int group_exit_code;
    unsigned int flags;
    u64 utime, stime, cutime, cstime;
    struct prev_cputime prev_cputime;
    unsigned long long sum_sched_runtime;
    unsigned long min_flt, maj_flt;
    unsigned long maxrss;
    unsigned long inblock, oublock;
    struct task_io_accounting ioac;
    struct rlimit rlim[16];
    struct thread_group_cputimer cputimer; /* with CONFIG_POSIX_TIMERS */
    short oom_score_adj;
};

struct sigaction {
    void *sa_handler;
    unsigned long sa_flags;
};

struct k_sigaction {
    struct sigaction sa;
};

struct sighand_struct {
    struct k_sigaction action[64];
};

struct sched_entity {
    u64 sum_exec_runtime;
};

struct thread_info {
    unsigned long flags;
    u32 status;
};

struct task_struct {
    struct thread_info thread_info;
    unsigned int __state;
    unsigned int flags;
    int on_cpu;
    struct sched_entity se;
    struct mm_struct *mm;
    int exit_state, exit_code;
    pid_t pid, tgid;
    struct task_struct *real_parent;
    struct task_struct *group_leader;
    struct list_head thread_node;
    u64 utime, stime;
    u64 start_boottime;
    unsigned long min_flt, maj_flt;
    const struct cred *real_cred;
    char comm[TASK_NAME_SIZE];
    struct files_struct *files;
    struct signal_struct *signal;
    struct sighand_struct *sighand;
    struct task_io_accounting ioac;
};

struct linux_binprm {
    const char *filename;
};

struct bpf_array {
    void *pptrs[0];
};

/* The registers with which a thread has entered the kernel. */
#if defined(__TARGET_ARCH_arm64)
struct pt_regs {
    s32 syscallno;
};
#endif

#pragma clang attribute pop

/* The layout of these is part of the ABI. For each other structure libbpf searches all types of the
 * kernel, which takes 0.6 ms. */
struct kernel_siginfo {
    int si_signo, si_errno, si_code;
};

#if !defined(__TARGET_ARCH_arm64)
struct pt_regs {
    unsigned long others[15];
    unsigned long orig_ax;
};
#endif

struct bpf_iter_task {
    __u64 __opaque[3];
} __attribute__((aligned(8)));
