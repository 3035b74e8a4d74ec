/* Reads all processes, or those of a list, into an array that sonde has mapped: one system call for
 * hundreds of processes, without text. */
#pragma once

#include "probe/bpf/kernel-types.h"

#include "probe/bpf/kernel-functions.bpf.h"
#include "probe/bpf/kernel-membership.bpf.h"
#include "probe/bpf/kernel-memory.bpf.h"
#include "probe/bpf/kernel-records.h"
#include "probe/bpf/kernel-threads.bpf.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct walk_request request;

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, PROCESS_RECORDS);
    __type(key, u32);
    __type(value, struct process_record);
} records SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, PROCESS_CHUNK);
    __type(key, u32);
    __type(value, u64); /* entries of a mapped array are aligned to eight bytes */
} wanted_pids SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, u64);
} landmark SEC(".maps");

/* The verifier permits the conversion of a pointer to a number only through memory. */
static __always_inline u64 as_number(const void *pointer)
{
    u64 number = 0;

    bpf_probe_read_kernel(&number, sizeof(number), &pointer);
    return number;
}

/* Finds the offset of each CPU's memory from the shared per-CPU address. The kernel does not export
 * it, but for a map of our own both addresses are known. */
SEC("syscall") int find_cpu_offsets(void *context)
{
    u64 map = as_number(&landmark), shared = 0;
    u32 key = 0;

    bpf_probe_read_kernel(&shared, sizeof(shared),
                          (void *)(map + bpf_core_field_offset(struct bpf_array, pptrs)));
    for (u32 cpu = 0; cpu < CPUS_MAX; cpu++) {
        if (cpu >= cpu_count)
            break;
        void *here = bpf_map_lookup_percpu_elem(&landmark, &key, cpu);
        if (!here)
            break;
        cpu_offsets[cpu] = as_number(here) - shared;
    }
    return 0;
}

/* ---- descriptors ---- */

/* Words of the bitmap of open descriptors per read. */
#define WORDS_AT_ONCE 8

struct fd_walk {
    u64 address;
    u32 words;
    u32 count;
};

static __always_inline u32 count_bits(u64 word)
{
    word -= (word >> 1) & 0x5555555555555555ULL;
    word = (word & 0x3333333333333333ULL) + ((word >> 2) & 0x3333333333333333ULL);
    word = (word + (word >> 4)) & 0x0f0f0f0f0f0f0f0fULL;
    return (word * 0x0101010101010101ULL) >> 56;
}

static long add_words(u32 number, struct fd_walk *walk)
{
    u64 words[WORDS_AT_ONCE] = {};
    u32 first = number * WORDS_AT_ONCE;

    if (first >= walk->words)
        return 1;
    u32 left = walk->words - first;
    u32 bytes = (left < WORDS_AT_ONCE ? left : WORDS_AT_ONCE) * sizeof(u64);
    if (bytes > sizeof(words) ||
        bpf_probe_read_kernel(words, bytes, (void *)(walk->address + first * sizeof(u64))))
        return 1;
    for (u32 i = 0; i < WORDS_AT_ONCE; i++)
        walk->count += count_bits(words[i]);
    return 0;
}

static __always_inline u32 count_fds(struct files_struct *files)
{
    struct fdtable *table = files->fdt;
    struct fd_walk walk = {.address = (u64)table->open_fds, .words = table->max_fds / 64};

    if (reads_plain_memory && walk.words == 1)
        return count_bits(*(u64 *)bpf_rdonly_cast(table->open_fds, 0));
    if (reads_plain_memory && walk.words == 4) {
        u64 *words = bpf_rdonly_cast(table->open_fds, 0);
        return count_bits(words[0]) + count_bits(words[1]) + count_bits(words[2]) +
               count_bits(words[3]);
    }
    bpf_loop((walk.words + WORDS_AT_ONCE - 1) / WORDS_AT_ONCE, add_words, &walk, 0);
    return walk.count;
}

/* ---- one process ---- */

static __always_inline void fill_pages(struct mm_struct *mm, struct process_record *record)
{
    struct memory_pages pages = memory_of(mm);

    record->rss_pages = pages.file + pages.anon + pages.shmem;
    record->shared_pages = pages.file + pages.shmem;
    record->shmem_pages = pages.shmem;
    record->peak_pages = mm->hiwater_rss;
    record->vsize_pages = mm->total_vm;
}

static __always_inline void clear_memory(struct process_record *record)
{
    record->has_memory = false;
    record->rss_pages = record->shared_pages = record->shmem_pages = record->memory = 0;
    record->peak_pages = record->vsize_pages = record->arg_start = 0;
    record->open_fds = 0;
}

static __always_inline void fill_state(struct task_struct *task, struct process_record *record)
{
    record->ppid = task->real_parent->tgid;
    record->state = task->__state;
    record->exit_state = task->exit_state;
}

static __always_inline void fill_identity(struct task_struct *task, struct signal_struct *signal,
                                          struct process_record *record)
{
    record->pid = task->tgid;
    record->uid = task->real_cred->uid.val;
    record->threads = signal->nr_threads;
    record->is_ending = signal->live.counter == 0;
    record->is_kernel_thread = !!(task->flags & PF_KTHREAD);
    record->is_forked = !!(task->flags & PF_FORKNOEXEC);
    record->address = (u64)task;
    record->start_boot_ns = task->start_boottime;
    record->first_cpu_ns = task->se.sum_exec_runtime;
    record->fd_limit = signal->rlim[RLIMIT_NOFILE].rlim_cur;
    record->reaped_user_ns = signal->cutime;
    record->reaped_system_ns = signal->cstime;
    record->reaped_read_bytes = signal->ioac.read_bytes - block_bytes(signal->inblock);
    record->reaped_write_bytes = signal->ioac.write_bytes - block_bytes(signal->oublock);
    record->reported_user_ns = signal->prev_cputime.utime;
    record->reported_system_ns = signal->prev_cputime.stime;
    __builtin_memcpy(record->name, task->comm, sizeof(record->name));
}

static __always_inline bool discards_children(struct task_struct *task)
{
    struct sighand_struct *sighand = task->sighand; /* NULL after the reap */
    if (!sighand)
        return false;

    return sighand->action[SIGCHLD_NUMBER - 1].sa.sa_handler == (void *)1 ||
           (sighand->action[SIGCHLD_NUMBER - 1].sa.sa_flags & SA_NOCLDWAIT);
}

static __always_inline void sum_only_thread(struct task_struct *task, struct signal_struct *signal,
                                            struct thread_sums *sums)
{
    sums->cpu_ns = signal->sum_sched_runtime + task->se.sum_exec_runtime;
    sums->user_ns = signal->utime + task->utime;
    sums->system_ns = signal->stime + task->stime;
    sums->faults = signal->min_flt + signal->maj_flt + task->min_flt + task->maj_flt;
    sums->read_bytes = block_bytes(signal->inblock) + task->ioac.read_bytes;
    sums->write_bytes = block_bytes(signal->oublock) + task->ioac.write_bytes;
}

/* Reads all but the size of the memory. Returns the memory, or NULL. A leader that has ended while
 * other threads continue has neither memory nor descriptors: these and the state come from a live
 * thread. */
static __always_inline struct mm_struct *fill_completely(struct task_struct *task,
                                                         struct process_record *record)
{
    struct signal_struct *signal = task->signal;
    struct files_struct *files = task->files;
    struct mm_struct *mm = task->mm;
    struct thread_sums sums = {};

    clear_memory(record);
    fill_identity(task, signal, record);
    if (signal->nr_threads > 1)
        sum_threads(signal, &sums);
    else
        sum_only_thread(task, signal, &sums);
    record->cpu_ns = sums.cpu_ns;
    record->user_ns = sums.user_ns;
    record->system_ns = sums.system_ns;
    record->faults = sums.faults;
    record->read_bytes = sums.read_bytes;
    record->write_bytes = sums.write_bytes;
    if (record->exit_state && sums.has_living) {
        record->state = sums.state;
        record->exit_state = sums.exit_state;
    }
    if (!mm && sums.mm) {
        mm = bpf_rdonly_cast((void *)sums.mm, bpf_core_type_id_kernel(struct mm_struct));
        files = bpf_rdonly_cast((void *)sums.files, bpf_core_type_id_kernel(struct files_struct));
    }
    if (mm) {
        record->has_memory = true;
        record->arg_start = mm->arg_start;
        record->memory = (u64)mm;
    }
    if (files)
        record->open_fds = count_fds(files);
    record->ignores_sigchld = discards_children(task);
    return mm;
}

/* Returns whether the process has one thread that has not run since it was read into this record.
 * Then the record is still valid, except for what others can change: memory that is reclaimed, a
 * parent that ends, a wakeup, a reap, a tag. Only these values are read again. Most processes sleep
 * most of the time, and the data of a process is in eight places in memory, all of them cold. */
static __always_inline bool has_slept(struct task_struct *task, struct process_record *record)
{
    if (!bpf_core_field_exists(task->on_cpu)) /* a kernel for one CPU, before Linux 6.17 */
        return false;
    return record->address == (u64)task && record->start_boot_ns == task->start_boottime &&
           record->threads == 1 && !task->on_cpu &&
           record->first_cpu_ns == task->se.sum_exec_runtime;
}

/* A separate function for the verifier, which would otherwise verify it again for each state of the
 * surrounding loop (73,000 instructions instead of 1,600). */
__noinline int fill_record(struct task_struct *trusted __attribute__((btf_decl_tag("arg:trusted"))),
                           struct process_record *record, bool is_full)
{
    struct task_struct *task = plain_task(trusted);

    if (!record)
        return 0;
    record->mono_ns = bpf_ktime_get_ns();
    bool is_partial = !is_full && has_slept(task, record);

    fill_state(task, record);
    struct mm_struct *mm = is_partial ? task->mm : fill_completely(task, record);
    if (mm) /* only here: the verifier checks each copy of the loop over the CPUs */
        fill_pages(mm, record);
    return 0;
}

/* Processes are read completely in turn, so that all readings cost the same. */
static __always_inline void fill_next(struct trusted_task *task, struct process_record *record,
                                      u32 number)
{
    record->tag = own_tag_of(task);
    fill_record((struct task_struct *)task, record,
                (request.reading + number) % FULL_READING_EVERY == 0);
}

/* ---- all processes ---- */

/* If the last task of the previous walk is gone, so is its place in the list. The walk then
 * continues by start time, which is the order of the list. */
static __always_inline bool is_behind(struct task_struct *task)
{
    return request.after_start_boot_ns && task->start_boottime > request.after_start_boot_ns;
}

__noinline int walk_processes(void)
{
    struct bpf_iter_task walk;
    struct trusted_task *task;
    u32 count = 0, total = 0;
    u32 limit = request.limit, first = request.first;
    u64 after = request.after_address;
    bool is_found = !after, is_end = true;

    bpf_rcu_read_lock();
    bpf_iter_task_new(&walk, NULL, BPF_TASK_ITER_ALL_PROCS);
    while ((task = next_task(&walk))) {
        if (!is_found) {
            total++;
            if ((u64)task == after) {
                is_found = true;
                continue;
            }
            if (!is_behind(plain_task(task)))
                continue;
            is_found = true;
            total--;
        }
        if (count >= limit) {
            is_end = false;
            break;
        }
        if (!plain_task(task)->pid) /* the idle task */
            continue;
        u32 key = first + count;
        struct process_record *record = bpf_map_lookup_elem(&records, &key);
        if (!record)
            break;
        fill_next(task, record, count);
        total++;
        count++;
    }
    bpf_iter_task_destroy(&walk);
    bpf_rcu_read_unlock();
    request.count = count;
    request.total = total;
    request.is_end = is_end;
    return 0;
}

/* ---- the processes of the list ---- */

static long read_one(u32 number, u32 *count)
{
    u32 key = number, next = *count;
    u64 *pid = bpf_map_lookup_elem(&wanted_pids, &key);
    struct process_record *record = bpf_map_lookup_elem(&records, &next);

    if (!pid || !record)
        return 1;
    struct trusted_task *task = task_from_pid((s32)*pid);
    if (!task)
        return 0;
    if (plain_task(task)->pid == plain_task(task)->tgid) {
        fill_next(task, record, next);
        *count = next + 1;
    }
    release_task(task);
    return 0;
}

/* One program for both: the verifier checks fill_record() once. */
SEC("syscall") int read_processes(void *context)
{
    u32 count = 0;

    if (!request.is_list)
        return walk_processes();
    bpf_loop(request.limit, read_one, &count, 0);
    request.count = count;
    return 0;
}
