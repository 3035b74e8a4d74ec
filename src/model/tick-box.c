#include "model/tick-box.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/macros.h"
#include "base/vec.h"

struct tick_box *tick_box_new(void)
{
    return calloc(1, sizeof(struct tick_box));
}

void tick_box_free(struct tick_box *box)
{
    if (!box)
        return;
    snapshot_unref(box->tick.snapshot);
    free(box->tick.events.items);
    free(box->tick.gaps.items);
    free(box->tick.traces.items);
    arena_done(&box->arena);
    free(box);
}

void tick_box_freep(struct tick_box **box)
{
    tick_box_free(*box);
}

bool tick_box_is_full(const struct tick_box *box)
{
    return box->tick.events.count >= TICK_EVENTS_MAX;
}

/* ---- events ---- */

/* Copies the names of a run once for all events of it in a row. */
static int copy_owner(struct tick_box *box, const struct event_owner *owner)
{
    if (!owner->run_id) {
        box->run_id = box->job_id = NULL;
        return 0;
    }
    if (box->run_id && strcmp(box->run_id, owner->run_id) == 0)
        return 0;
    const char *run_id = arena_strdup(&box->arena, owner->run_id);
    const char *job_id = arena_strdup(&box->arena, owner->job_id);
    if (!run_id || !job_id)
        return -ENOMEM;
    box->run_id = run_id;
    box->job_id = job_id;
    return 0;
}

static int reserve_event(struct tick_box *box)
{
    struct process_event_list *events = &box->tick.events;

    if (tick_box_is_full(box))
        return -ENOBUFS;
    if (events->count < box->event_capacity)
        return 0;
    return vec_reserve_bytes((void **)&events->items, &box->event_capacity, events->count + 1,
                             sizeof(events->items[0]));
}

struct process_event *tick_box_add_event(struct tick_box *box, struct event_owner owner,
                                         enum event_type type, pid_t pid, double timestamp)
{
    if (copy_owner(box, &owner) < 0 || reserve_event(box) < 0) {
        box->lost_events++;
        return NULL;
    }
    struct process_event *event = &box->tick.events.items[box->tick.events.count++];
    record_init(&process_event_record, event);
    event->details_are_calls = false;
    event->uid = INT_UNKNOWN;
    event->timestamp = timestamp;
    event->event_type = (int)type;
    event->pid = pid;
    event->run_id = box->run_id;
    event->job_id = box->job_id;
    event->sheet_num = owner.sheet_num;
    return event;
}

struct process_event *tick_box_add_spawn(struct tick_box *box, struct event_owner owner, pid_t pid,
                                         int64_t ppid, double timestamp)
{
    struct process_event *event = tick_box_add_event(box, owner, EVENT_SPAWN, pid, timestamp);

    if (event)
        event->ppid = ppid;
    return event;
}

struct process_event *tick_box_find_end(const struct tick_box *box, pid_t pid)
{
    for (size_t i = box->tick.events.count; i-- > 0;) {
        struct process_event *event = &box->tick.events.items[i];
        if (event->pid != pid)
            continue;
        if (event->event_type == EVENT_EXIT || event->event_type == EVENT_KILL)
            return event;
        if (event->event_type == EVENT_SPAWN)
            return NULL; /* earlier events with this pid belong to another process */
    }
    return NULL;
}

bool event_is_lifecycle(const struct process_event *event)
{
    switch (event->event_type) {
    case EVENT_SPAWN:
    case EVENT_EXEC:
    case EVENT_EXIT:
    case EVENT_KILL: return event->is_step != TRUTH_YES;
    default: return false;
    }
}

void tick_box_remove_events(struct tick_box *box,
                            bool (*is_unwanted)(void *context, const struct process_event *event),
                            void *context)
{
    struct process_event_list *events = &box->tick.events;
    size_t kept = 0;

    for (size_t i = 0; i < events->count; i++)
        if (!is_unwanted(context, &events->items[i]))
            events->items[kept++] = events->items[i];
    events->count = kept;
}

static bool is_not_lifecycle(void *context _unused_, const struct process_event *event)
{
    return !event_is_lifecycle(event);
}

void tick_box_keep_lifecycle(struct tick_box *box, const char *run_id)
{
    struct gap_list *gaps = &box->tick.gaps;
    size_t kept = 0;

    tick_box_remove_events(box, is_not_lifecycle, NULL);
    for (size_t i = 0; i < gaps->count; i++)
        if (gaps->items[i].kind == GAP_EVENTS)
            gaps->items[kept++] = gaps->items[i];
    gaps->count = kept;
    box->tick.traces.count = box->tick.anomalies.count = 0;
    snprintf(box->tick.beside_run, sizeof(box->tick.beside_run), "%s", run_id);
}

/* Copies the sender and the details of a signal. A text that cannot be allocated stays NULL. */
static void copy_sender(struct tick_box *box, const struct process_event *sent,
                        struct process_event *event)
{
    event->sender_pid = sent->sender_pid;
    if (sent->sender_command)
        event->sender_command = arena_strdup(&box->arena, sent->sender_command);
    if (sent->details)
        event->details = arena_strdup(&box->arena, sent->details);
}

struct process_event *tick_box_add_signal(struct tick_box *box, struct event_owner owner, pid_t pid,
                                          const struct process_event *sent, double timestamp)
{
    struct process_event *end = tick_box_find_end(box, pid);

    /* The end of a process may be reported before the signal that killed it. */
    if (end && end->event_type == EVENT_KILL) {
        if (end->signal_num == sent->signal_num)
            copy_sender(box, sent, end);
        return end;
    }
    struct process_event *event = tick_box_add_event(box, owner, EVENT_SIGNAL, pid, timestamp);
    if (!event)
        return NULL;
    event->signal_num = sent->signal_num;
    copy_sender(box, sent, event);
    box->signals++;
    return event;
}

/* Removes the latest signal of that number; the order of the others stays. */
static bool remove_signal(struct tick_box *box, pid_t pid, int number, struct process_event *ret)
{
    struct process_event_list *events = &box->tick.events;

    for (size_t i = box->signals ? events->count : 0; i-- > 0;) {
        struct process_event *event = &events->items[i];
        if (event->event_type != EVENT_SIGNAL || event->pid != pid || event->signal_num != number)
            continue;
        *ret = *event;
        memmove(event, event + 1, (events->count - i - 1) * sizeof(*event));
        events->count--;
        box->signals--;
        return true;
    }
    return false;
}

static struct process_event *add_kill(struct tick_box *box, struct event_owner owner, pid_t pid,
                                      int wait_status, double timestamp)
{
    struct process_event signal;
    bool is_known = remove_signal(box, pid, WTERMSIG(wait_status), &signal);
    struct process_event *event = tick_box_add_event(box, owner, EVENT_KILL, pid, timestamp);

    if (!event)
        return NULL;
    event->signal_num = WTERMSIG(wait_status);
    if (is_known) {
        event->sender_pid = signal.sender_pid;
        event->sender_command = signal.sender_command;
        event->details = signal.details;
    }
    if (!event->details && WCOREDUMP(wait_status))
        event->details = "core dumped";
    return event;
}

struct process_event *tick_box_add_end(struct tick_box *box, struct event_owner owner, pid_t pid,
                                       int wait_status, double timestamp)
{
    if (WIFSIGNALED(wait_status))
        return add_kill(box, owner, pid, wait_status, timestamp);
    struct process_event *event = tick_box_add_event(box, owner, EVENT_EXIT, pid, timestamp);

    if (event)
        event->exit_code = WEXITSTATUS(wait_status);
    return event;
}

/* ---- gaps ---- */

int tick_box_add_gap(struct tick_box *box, const struct gap *gap)
{
    struct gap_list *gaps = &box->tick.gaps;
    char *reason = NULL;

    if (gap->reason && !(reason = arena_strdup(&box->arena, gap->reason)))
        return -ENOMEM;
    if (gaps->count == box->gap_capacity) {
        int r = vec_reserve_bytes((void **)&gaps->items, &box->gap_capacity, gaps->count + 1,
                                  sizeof(gaps->items[0]));
        if (r < 0)
            return r;
    }
    gaps->items[gaps->count] = *gap;
    gaps->items[gaps->count++].reason = reason;
    return 0;
}

int tick_box_add_trace(struct tick_box *box, const struct traced *traced, const char *details)
{
    struct process_trace_list *traces = &box->tick.traces;
    struct process_trace trace = {
        .pid = traced->pid, .start_ticks = traced->start_ticks, .details = details};

    int r = vec_reserve_bytes((void **)&traces->items, &box->trace_capacity, traces->count + 1,
                              sizeof(traces->items[0]));
    if (r == 0)
        r = syscall_profile_list(traced->calls, SYSCALL_COUNTS, &box->arena, &trace.syscall_counts);
    if (r == 0)
        r = syscall_profile_shares(traced->calls, SYSCALL_SHARE_EXACT, &box->arena,
                                   &trace.syscall_time_pct);
    if (r == 0 && traced->run_id && !(trace.run_id = arena_strdup(&box->arena, traced->run_id)))
        r = -ENOMEM;
    if (r == 0)
        traces->items[traces->count++] = trace;
    return r;
}
