/* Counts every system call of selected threads, with its time and errors. The two programs below
 * cost each call on the machine 0.25 µs, so they are attached only on request.
 *
 * A thread is counted if it has a call_state of the current generation: sonde sets the first, and
 * children and threads inherit it. A call counts when it returns; exit_group never does. The sums
 * are per process and are sent when it ends. Their number is limited; calls without room are
 * counted as lost. */
#pragma once

#include "probe/bpf/kernel-types.h"

#include "probe/bpf/kernel-calls.bpf.h"
#include "probe/bpf/kernel-functions.bpf.h"
#include "probe/bpf/kernel-records.h"
#include "probe/bpf/kernel-ring.bpf.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define ERRNO_MAX     4095
#define BITS_PER_WORD 64
#define CALL_WORDS    (CALL_COUNT / BITS_PER_WORD)
#define CALL_SUMS_MAX 65536
#define CALLERS_MAX   8192

/* Set before loading: whether the two counting programs are loaded. */
const volatile bool can_count_calls = true;

u32 call_generation; /* 0: counting is off */
u64 lost_calls;      /* calls without room in the sums or in the ring */
u64 lost_callers;    /* threads that could not get a state */

struct {
    __uint(type, BPF_MAP_TYPE_TASK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, struct call_state);
} calling SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __uint(max_entries, CALL_SUMS_MAX);
    __type(key, struct call_key);
    __type(value, struct call_sum);
} call_sums SEC(".maps");

/* A bitmap of the calls of a process that have sums. */
struct caller {
    u64 used[CALL_WORDS];
};

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __uint(max_entries, CALLERS_MAX);
    __type(key, s32);
    __type(value, struct caller);
} callers SEC(".maps");

/* ---- threads that are counted ---- */

static __always_inline struct call_state *own_state_of(struct trusted_task *task)
{
    struct call_state *state = bpf_task_storage_get(&calling, (struct task_struct *)task, 0, 0);

    return state && state->generation == call_generation ? state : NULL;
}

static __always_inline void begin_counting(struct trusted_task *task, u32 waits_for_exec)
{
    struct call_state fresh = {.generation = call_generation, .waits_for_exec = waits_for_exec};
    struct call_state *state = bpf_task_storage_get(&calling, (struct task_struct *)task, &fresh,
                                                    BPF_LOCAL_STORAGE_GET_F_CREATE);

    if (state)
        *state = fresh; /* it may be from an earlier generation */
    else
        __sync_fetch_and_add(&lost_callers, 1);
}

/* In an existing process, sonde can set only the state of the first thread; others copy it here. */
static __always_inline struct call_state *state_of(struct trusted_task *original)
{
    struct task_struct *task = (struct task_struct *)original; /* so that its leader is trusted */
    struct call_state *state = own_state_of(original);

    if (state || task->pid == task->tgid ||
        !own_state_of((struct trusted_task *)task->group_leader))
        return state;
    begin_counting(original, 0);
    return own_state_of(original);
}

static __always_inline void inherit_counting(struct trusted_task *parent,
                                             struct trusted_task *child)
{
    struct call_state *state = can_count_calls && call_generation ? own_state_of(parent) : NULL;

    if (state)
        begin_counting(child, state->waits_for_exec);
}

/* ---- calls ---- */

SEC("tp_btf/sys_enter") int BPF_PROG(on_call, struct pt_regs *regs, long number)
{
    struct trusted_task *task = current_task();
    struct call_state *state = state_of(task);

    if (!state)
        return 0;
    state->call = call_of(plain_task(task), number);
    state->since_ns = bpf_ktime_get_ns();
    return 0;
}

/* Adds an empty sum and sets its bit. */
static __always_inline struct call_sum *add_sum(const struct call_key *key)
{
    struct call_sum none = {};
    struct caller *caller = bpf_map_lookup_elem(&callers, &key->pid);

    if (!caller) {
        static const struct caller fresh;
        bpf_map_update_elem(&callers, &key->pid, &fresh, BPF_NOEXIST);
        caller = bpf_map_lookup_elem(&callers, &key->pid);
    }
    if (!caller)
        return NULL;
    bpf_map_update_elem(&call_sums, key, &none, BPF_NOEXIST);
    __sync_fetch_and_or(&caller->used[key->call / BITS_PER_WORD % CALL_WORDS],
                        1ULL << key->call % BITS_PER_WORD);
    return bpf_map_lookup_elem(&call_sums, key);
}

/* A thread that is killed in a call leaves the call without returning to the program. */
static __always_inline bool never_returns(struct task_struct *task)
{
    return task->signal->flags & SIGNAL_GROUP_EXIT;
}

SEC("tp_btf/sys_exit") int BPF_PROG(on_return, struct pt_regs *regs, long result)
{
    struct trusted_task *original = current_task();
    struct task_struct *task = plain_task(original);
    struct call_state *state = own_state_of(original);
    bool is_error = result < 0 && result >= -ERRNO_MAX;

    if (!state || !state->since_ns)
        return 0;
    u64 ns = bpf_ktime_get_ns() - state->since_ns;
    state->since_ns = 0;
    if (state->waits_for_exec) {
        if (result != 0 || !is_exec(state->call))
            return 0;
        state->waits_for_exec = 0;
    }
    if (is_error && never_returns(task))
        return 0;
    struct call_key key = {.pid = task->tgid, .call = state->call};
    struct call_sum *sum = bpf_map_lookup_elem(&call_sums, &key);
    if (!sum)
        sum = add_sum(&key);
    if (!sum) {
        __sync_fetch_and_add(&lost_calls, 1);
        return 0;
    }
    __sync_fetch_and_add(&sum->count, 1);
    __sync_fetch_and_add(&sum->ns, ns);
    if (is_error)
        __sync_fetch_and_add(&sum->errors, 1);
    return 0;
}

/* ---- the end of a process ---- */

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct kernel_calls);
} calls_buffer SEC(".maps");

struct call_walk {
    s32 pid;
    u32 word;
    u64 bits; /* the remaining bits of that word */
    struct caller *caller;
};

static __always_inline struct kernel_calls *get_event(void)
{
    u32 key = 0;

    return bpf_map_lookup_elem(&calls_buffer, &key);
}

static __always_inline void send_event(struct kernel_calls *event)
{
    u32 count = event->count;

    event->count = 0;
    if (!count || count > CALLS_AT_ONCE)
        return;
    u64 size = sizeof(*event) - (CALLS_AT_ONCE - count) * sizeof(event->items[0]);
    event->count = count;
    if (bpf_ringbuf_output(&ring, event, size, BPF_RB_NO_WAKEUP) < 0)
        for (u32 i = 0; i < CALLS_AT_ONCE && i < count; i++)
            __sync_fetch_and_add(&lost_calls, event->items[i].sum.count);
    event->count = 0;
}

static __always_inline u32 lowest_bit(u64 word)
{
    u64 below = (word & -word) - 1;
    u32 number = 0;

    for (u32 width = BITS_PER_WORD / 2; width; width /= 2)
        if (below >> width) {
            below >>= width;
            number += width;
        }
    return number + (below & 1);
}

static __always_inline void send_sum(struct kernel_calls *event, const struct call_key *key)
{
    struct call_sum *sum = bpf_map_lookup_elem(&call_sums, key);
    u32 at = event->count;

    if (!sum || at >= CALLS_AT_ONCE)
        return;
    event->items[at].call = key->call;
    event->items[at].padding = 0;
    event->items[at].sum = *sum;
    event->count = at + 1;
    bpf_map_delete_elem(&call_sums, key);
    if (at + 1 == CALLS_AT_ONCE)
        send_event(event);
}

/* Loads the next word of the bitmap, or sends the sum of one bit of it. */
static long send_next_sum(u32 step, struct call_walk *walk)
{
    struct kernel_calls *event = get_event();

    if (!event)
        return 1;
    if (!walk->bits) {
        if (walk->word >= CALL_WORDS)
            return 1;
        walk->bits = walk->caller->used[walk->word % CALL_WORDS];
        walk->word++;
        return 0;
    }
    struct call_key key = {.pid = walk->pid,
                           .call = (walk->word - 1) * BITS_PER_WORD + lowest_bit(walk->bits)};
    walk->bits &= walk->bits - 1;
    send_sum(event, &key);
    return 0;
}

static __always_inline void send_calls(struct task_struct *task, u32 tag)
{
    struct call_walk walk = {.pid = task->tgid};
    struct kernel_calls *event;

    if (!can_count_calls || !call_generation)
        return;
    walk.caller = bpf_map_lookup_elem(&callers, &walk.pid);
    event = get_event();
    if (!walk.caller || !event)
        return;
    fill_head(&event->head, KERNEL_CALLS, task, tag);
    event->start_boot_ns = task->group_leader->start_boottime;
    event->count = 0;
    event->padding = 0;
    bpf_loop(CALL_COUNT + CALL_WORDS, send_next_sum, &walk, 0);
    send_event(event);
    bpf_map_delete_elem(&callers, &walk.pid);
}
