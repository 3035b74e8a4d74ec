#include "engine/intake.h"

#include "base/cleanup.h"
#include "base/clock.h"

void intake_done(struct intake *intake)
{
    tick_box_free(intake->box);
    command_book_done(&intake->book);
    *intake = (struct intake){0};
}

/* ---- the box ---- */

struct tick_box *intake_box(struct intake *intake)
{
    if (!intake->box)
        intake->box = tick_box_new();
    return intake->box;
}

void intake_hand_over(struct intake *intake, struct snapshot *snapshot)
{
    struct tick_box *box = TAKE_PTR(intake->box);

    if (!box)
        return;
    box->tick.snapshot = snapshot;
    command_book_name(&intake->book, box);
    intake->hand_over(intake->context, box);
}

/* The box for an event: NULL if none are wanted, or there is no memory. */
static struct tick_box *event_box(struct intake *intake)
{
    if (!intake->wants_events)
        return NULL;
    if (intake->box && tick_box_is_full(intake->box))
        intake_hand_over(intake, NULL);
    struct tick_box *box = intake_box(intake);
    if (!box)
        intake->lost_events++;
    return box;
}

/* ---- events ---- */

void intake_spawn(struct intake *intake, struct owner owner, pid_t pid, int64_t ppid,
                  double timestamp)
{
    struct tick_box *box = event_box(intake);

    if (box)
        tick_box_add_spawn(box, owner, pid, ppid, timestamp);
}

struct process_event *intake_end(struct intake *intake, struct owner owner, pid_t pid,
                                 int wait_status, double timestamp)
{
    struct tick_box *box = event_box(intake);
    struct process_event *end =
        box ? tick_box_add_end(box, owner, pid, wait_status, timestamp) : NULL;

    if (end)
        sent_signals_name(&intake->sent, &box->arena, clock_mono_ns(), end);
    return end;
}

void intake_lifecycle(struct intake *intake, const struct member *member,
                      const struct lifecycle_event *event, double timestamp)
{
    struct owner owner = owner_of(member);
    struct process_event *exec;
    struct tick_box *box;

    switch (event->kind) {
    case LIFECYCLE_FORK: intake_spawn(intake, owner, event->pid, event->ppid, timestamp); break;
    case LIFECYCLE_EXEC:
        box = event_box(intake);
        exec = box ? tick_box_add_event(box, owner, EVENT_EXEC, event->pid, timestamp) : NULL;
        if (exec)
            command_book_read(&intake->book, box, exec);
        break;
    case LIFECYCLE_EXIT:
        intake_end(intake, owner, event->pid, event->wait_status, timestamp);
        break;
    case LIFECYCLE_THREAD: break;
    }
}

void intake_signal(struct intake *intake, struct owner owner, pid_t pid,
                   const struct process_event *sent)
{
    struct tick_box *box = event_box(intake);

    if (!box)
        return;
    tick_box_add_signal(box, owner, pid, sent, ns_to_sec(clock_real_ns()));
    sent_signals_note(&intake->sent, pid, sent, clock_mono_ns());
}

void intake_step(struct intake *intake, struct owner owner, enum event_type type, pid_t pid,
                 int64_t exit_code, const char *details, double timestamp)
{
    struct tick_box *box = event_box(intake);
    struct process_event *event = box ? tick_box_add_event(box, owner, type, pid, timestamp) : NULL;

    if (!event)
        return;
    event->is_step = true;
    event->exit_code = exit_code;
    event->details = arena_strdup(&box->arena, details); /* or without words */
}

/* ---- gaps ---- */

void intake_gap(struct intake *intake, const struct gap *gap)
{
    if (intake_box(intake))
        tick_box_add_gap(intake->box, gap);
}

uint64_t intake_take_lost(struct intake *intake)
{
    uint64_t lost = intake->lost_events;

    intake->lost_events = 0;
    if (intake->box) {
        lost += intake->box->lost_events;
        intake->box->lost_events = 0;
    }
    return lost;
}
