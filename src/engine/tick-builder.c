#include "engine/tick-builder.h"

#include <signal.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/macros.h"
#include "base/text.h"
#include "base/utf8.h"
#include "config/paths.h"
#include "model/process.h"
#include "model/syscall-profile.h"
#include "probe/process-lookup.h"

/* System calls that the event of an end lists; samples and the run have all of them. */
#define CALLS_DESCRIBED 3

void tick_builder_done(struct tick_builder *builder)
{
    for (struct tick_box *box; (box = tick_builder_take(builder));)
        tick_box_free(box);
    tick_box_free(builder->box);
    command_cache_done(&builder->commands);
    failure_chains_done(&builder->failures);
    *builder = (struct tick_builder){0};
}

/* ---- redaction ---- */

static void redact_events(struct tick_box *box, const struct text_list *words)
{
    for (size_t i = 0; box && i < box->tick.events.count; i++)
        redact_record(words, &process_event_record, &box->arena, &box->tick.events.items[i]);
}

bool tick_builder_redact(struct tick_builder *builder, const struct text_list *words)
{
    if (!redaction_set(&builder->redaction, words))
        return false;
    for (struct tick_box *box = builder->complete; box; box = box->next)
        redact_events(box, words);
    redact_events(builder->box, words);
    command_cache_redact(&builder->commands, words);
    sent_signals_redact(&builder->sent, words);
    failure_chains_redact(&builder->failures, words);
    return true;
}

/* Without memory the text becomes unknown. */
static void redact_text_of(const struct tick_builder *builder, struct tick_box *box,
                           const char **text)
{
    if (redact_replace(builder->redaction.words, &box->arena, text) < 0)
        *text = NULL;
}

/* ---- the box ---- */

struct tick_box *tick_builder_box(struct tick_builder *builder)
{
    if (!builder->box)
        builder->box = tick_box_new();
    return builder->box;
}

/* Adds an event to the chains of failures, and takes a missing command from them: a process that
 * was in no snapshot may have executed its program long before. */
static void add_to_chains(struct tick_builder *builder, struct tick_box *box,
                          struct process_event *event)
{
    bool is_beginning = event->event_type == EVENT_SPAWN || event->event_type == EVENT_EXEC;
    const char *command = failure_chains_command(&builder->failures, event->pid);

    if (command && !event->command && !is_beginning && event->is_step != TRUTH_YES && event->run_id)
        event->command = arena_strdup(&box->arena, command); /* NULL without memory */
    failure_chains_add(&builder->failures, event);
}

void tick_builder_finish(struct tick_builder *builder, const struct snapshot *snapshot)
{
    struct tick_box *box = TAKE_PTR(builder->box);

    if (!box)
        return;
    box->tick.snapshot = snapshot;
    command_cache_name(&builder->commands, box);
    for (size_t i = 0; i < box->tick.events.count; i++)
        add_to_chains(builder, box, &box->tick.events.items[i]);
    if (builder->complete)
        builder->newest->next = box;
    else
        builder->complete = box;
    builder->newest = box;
}

struct tick_box *tick_builder_take(struct tick_builder *builder)
{
    struct tick_box *box = builder->complete;

    if (box)
        builder->complete = TAKE_PTR(box->next);
    return box;
}

/* Returns the box for an event; NULL if no events are wanted, or without memory. */
static struct tick_box *event_box(struct tick_builder *builder)
{
    if (!builder->wants_events)
        return NULL;
    if (builder->box && tick_box_is_full(builder->box))
        tick_builder_finish(builder, NULL);
    struct tick_box *box = tick_builder_box(builder);
    if (!box)
        builder->lost_events++;
    return box;
}

/* ---- events ---- */

void tick_builder_add_spawn(struct tick_builder *builder, struct event_owner owner, pid_t pid,
                            int64_t ppid, double timestamp)
{
    struct tick_box *box = event_box(builder);

    if (box)
        tick_box_add_spawn(box, owner, pid, ppid, timestamp);
}

struct process_event *tick_builder_add_end(struct tick_builder *builder, struct event_owner owner,
                                           pid_t pid, int wait_status, double timestamp)
{
    struct tick_box *box = event_box(builder);
    struct process_event *end =
        box ? tick_box_add_end(box, owner, pid, wait_status, timestamp) : NULL;

    if (end)
        sent_signals_fill_sender(&builder->sent, &box->arena, clock_mono_ns(), end);
    return end;
}

static void add_exec(struct tick_builder *builder, struct event_owner owner,
                     const struct lifecycle_event *event, double timestamp)
{
    struct tick_box *box = event_box(builder);
    struct process_event *exec =
        box ? tick_box_add_event(box, owner, EVENT_EXEC, event->pid, timestamp) : NULL;

    if (!exec)
        return;
    command_cache_name_exec(&builder->commands, box, event->command, exec);
    redact_text_of(builder, box, &exec->command);
}

/* Returns "system calls: …" with the most important calls; NULL without memory. */
static const char *describe_calls(struct tick_box *box, const struct syscall_profile *calls)
{
    _cleanup_text_ struct text text = {0};

    text_append_string(&text, "system calls: ");
    syscall_profile_format(calls, CALLS_DESCRIBED, &text);
    return text_error(&text) == 0 ? arena_strdup(&box->arena, text_string(&text)) : NULL;
}

/* Sets the details of an end to the calls, unless it has details, which are more important. */
static void add_calls(struct process_event *end, const char *calls)
{
    if (end->details || !calls)
        return;
    end->details = calls;
    end->details_are_calls = true;
}

static void add_exit(struct tick_builder *builder, struct event_owner owner,
                     const struct lifecycle_event *event, double timestamp)
{
    struct process_event *end =
        tick_builder_add_end(builder, owner, event->pid, event->wait_status, timestamp);

    if (!end)
        return;
    if (int_is_known(event->cpu_ns))
        end->cpu_seconds = ns_to_sec((uint64_t)event->cpu_ns);
    end->peak_rss_mb = bytes_to_mb(event->peak_rss_bytes);
    if (event->calls)
        add_calls(end, describe_calls(builder->box, event->calls));
}

void tick_builder_add_trace(struct tick_builder *builder, const struct traced *traced)
{
    struct tick_box *box = event_box(builder);
    struct process_event *end = box ? tick_box_find_end(box, traced->pid) : NULL;
    const char *details = box ? describe_calls(box, traced->calls) : NULL;

    if (end)
        add_calls(end, details);
    if (box && tick_box_add_trace(box, traced, details) < 0)
        builder->lost_events++;
}

/* Adds a signal. Its sender is named by the command line if it is still the same process and the
 * owner of the run may see it (the same user, or root), otherwise by its short name. */
static void add_sent_signal(struct tick_builder *builder, struct event_owner owner,
                            const struct lifecycle_event *event, double timestamp)
{
    char command[COMMAND_MAX_BYTES + 1] = "", details[48];
    struct process_event sent;
    struct proc_stat stat;

    record_init(&process_event_record, &sent);
    sent.signal_num = event->signal_num;
    if (event->is_from_terminal)
        sent.details = "from the terminal";
    else
        sent.sender_pid = event->sender_pid; /* 0: the kernel */
    if (event->cpu_limit_sec) {
        snprintf(details, sizeof(details), "CPU limit of %llu s",
                 (unsigned long long)event->cpu_limit_sec);
        sent.details = details;
    }
    if (event->sender_pid) {
        if ((owner.uid == 0 || owner.uid == event->sender_uid) &&
            process_lookup_stat(PROC_ROOT, event->sender_pid, &stat) == 0 &&
            strcmp(stat.name, event->sender_name) == 0)
            process_lookup_command(PROC_ROOT, event->sender_pid, command, sizeof(command));
        if (!command[0])
            utf8_clean(command, sizeof(command), event->sender_name, strlen(event->sender_name));
        redact_buffer(builder->redaction.words, command, sizeof(command));
        sent.sender_command = command[0] ? command : NULL;
    }
    tick_builder_add_signal(builder, owner, event->pid, &sent, timestamp);
}

void tick_builder_add_oom(struct tick_builder *builder, struct event_owner owner,
                          const struct lifecycle_event *event, double timestamp)
{
    struct tick_box *box = event_box(builder);
    struct process_event *oom =
        box ? tick_box_add_event(box, owner, EVENT_OOM, event->pid, timestamp) : NULL;
    char name[64];

    if (!oom)
        return;
    utf8_clean(name, sizeof(name), event->command, strlen(event->command));
    oom->details = arena_strdup(&box->arena, event->details);
    oom->peak_rss_mb = bytes_to_mb(event->peak_rss_bytes);
    oom->uid = owner.run_id ? owner.uid : event->uid;
    if (!owner.run_id) /* the command lines of members are known later */
        oom->command = arena_strdup(&box->arena, name);
    redact_text_of(builder, box, &oom->command);
}

void tick_builder_add_lifecycle(struct tick_builder *builder, const struct member *member,
                                const struct lifecycle_event *event, double timestamp)
{
    struct event_owner owner = member_owner(member);

    switch (event->kind) {
    case LIFECYCLE_FORK:
        tick_builder_add_spawn(builder, owner, event->pid, event->ppid, timestamp);
        break;
    case LIFECYCLE_EXEC: add_exec(builder, owner, event, timestamp); break;
    case LIFECYCLE_EXIT: add_exit(builder, owner, event, timestamp); break;
    case LIFECYCLE_SIGNAL:
        if (!member->has_ended) /* else it had no effect */
            add_sent_signal(builder, owner, event, timestamp);
        break;
    case LIFECYCLE_OOM: tick_builder_add_oom(builder, owner, event, timestamp); break;
    case LIFECYCLE_THREAD: break;
    }
}

void tick_builder_add_signal(struct tick_builder *builder, struct event_owner owner, pid_t pid,
                             const struct process_event *sent, double timestamp)
{
    struct tick_box *box = event_box(builder);

    if (!box)
        return;
    tick_box_add_signal(box, owner, pid, sent, timestamp);
    sent_signals_add(&builder->sent, pid, sent, clock_mono_ns());
}

void tick_builder_add_step(struct tick_builder *builder, struct event_owner owner,
                           enum event_type type, pid_t pid, int64_t exit_code, const char *details,
                           double timestamp)
{
    struct tick_box *box = event_box(builder);
    struct process_event *event = box ? tick_box_add_event(box, owner, type, pid, timestamp) : NULL;

    if (!event)
        return;
    event->is_step = TRUTH_YES;
    event->exit_code = exit_code;
    event->details = arena_strdup(&box->arena, details); /* NULL without memory */
}

/* ---- losses ---- */

/* The first failure may be among the lost events. */
void tick_builder_mark_incomplete(struct tick_builder *builder)
{
    failure_chains_drop_living(&builder->failures);
    command_cache_drop_expected(&builder->commands);
}

void tick_builder_add_gap(struct tick_builder *builder, const struct gap *gap)
{
    if (tick_builder_box(builder))
        tick_box_add_gap(builder->box, gap);
}

uint64_t tick_builder_take_lost(struct tick_builder *builder)
{
    uint64_t lost = TAKE(builder->lost_events, 0);

    if (builder->box)
        lost += TAKE(builder->box->lost_events, 0);
    if (lost)
        tick_builder_mark_incomplete(builder);
    return lost;
}
