/* Exact resident memory: since Linux 6.2 a counter has a sum and a part on each CPU. */
#pragma once

#include "probe/bpf/kernel-types.h"

#include "probe/bpf/kernel-functions.bpf.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

/* Parts of CPUs beyond this number are not added. */
#define CPUS_MAX 1024

/* Set before the programs are loaded. */
const volatile u32 cpu_count = 1;
const volatile bool reads_plain_memory = true; /* bpf_rdonly_cast() to no type: Linux 6.17 */

u64 cpu_offsets[CPUS_MAX];

struct memory_pages {
    s64 file, anon, shmem;
};

struct counter_walk {
    u64 file, anon, shmem; /* addresses of the parts, without the offset of a CPU */
    struct memory_pages sum;
};

static __always_inline s32 read_part(u64 address)
{
    s32 part = 0;

    bpf_probe_read_kernel(&part, sizeof(part), (void *)address);
    return part;
}

static long add_cpu(u32 cpu, struct counter_walk *walk)
{
    if (cpu >= CPUS_MAX)
        return 1;
    u64 offset = cpu_offsets[cpu];

    if (reads_plain_memory) {
        /* The parts of one mm are adjacent (percpu_counter_init_many). */
        s32 *parts = bpf_rdonly_cast((void *)(walk->file + offset), 0);
        walk->sum.file += parts[MM_FILEPAGES];
        walk->sum.anon += parts[MM_ANONPAGES];
        walk->sum.shmem += parts[MM_SHMEMPAGES];
        return 0;
    }
    walk->sum.file += read_part(walk->file + offset);
    walk->sum.anon += read_part(walk->anon + offset);
    walk->sum.shmem += read_part(walk->shmem + offset);
    return 0;
}

static __always_inline struct memory_pages memory_of(struct mm_struct *mm)
{
    struct counter_walk walk = {
        .file = (u64)mm->rss_stat[MM_FILEPAGES].counters,
        .anon = (u64)mm->rss_stat[MM_ANONPAGES].counters,
        .shmem = (u64)mm->rss_stat[MM_SHMEMPAGES].counters,
        .sum = {.file = mm->rss_stat[MM_FILEPAGES].count,
                .anon = mm->rss_stat[MM_ANONPAGES].count,
                .shmem = mm->rss_stat[MM_SHMEMPAGES].count},
    };

    bpf_loop(cpu_count, add_cpu, &walk, 0);
    return walk.sum;
}
