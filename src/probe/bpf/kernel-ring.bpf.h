/* The ring buffer that all events go through to sonde.
 *
 * A sleeping reader is woken once and then drains the ring: a wakeup for each event would slow the
 * observed processes by a quarter. Events of processes without a tag do not wake the reader until
 * the ring is a quarter full. Events without room in the ring are counted as lost. */
#pragma once

#include "probe/bpf/kernel-types.h"

#include "probe/bpf/kernel-records.h"

#include <bpf/bpf_helpers.h>

#define RING_BYTES (4 * 1024 * 1024)

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, RING_BYTES);
} ring SEC(".maps");

u32 reader_sleeps; /* set by the reader, cleared by the event that wakes it */
u64 lost_events;   /* without room in the ring */

static __always_inline u64 wake_flags(bool is_awaited)
{
    if (!reader_sleeps ||
        (!is_awaited && bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) < RING_BYTES / 4))
        return BPF_RB_NO_WAKEUP;
    return __sync_lock_test_and_set(&reader_sleeps, 0) ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
}

static __always_inline void *reserve(u64 bytes)
{
    void *event = bpf_ringbuf_reserve(&ring, bytes, 0);

    if (!event)
        __sync_fetch_and_add(&lost_events, 1);
    return event;
}

static __always_inline void fill_head(struct kernel_event *head, enum kernel_event_kind kind,
                                      struct task_struct *task, u32 tag)
{
    head->kind = kind;
    head->padding = 0;
    head->tag = tag;
    head->mono_ns = bpf_ktime_get_ns();
    head->pid = task->tgid;
    head->tid = task->pid;
}
