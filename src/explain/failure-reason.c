#include "explain/failure-reason.h"

#include "explain/inline-script.h"
#include "explain/program-kind.h"
#include "model/process.h"
#include "model/signal-kind.h"

/* A process that passes a failure on ends within this time, even on a busy machine. */
#define AT_ONCE_SECONDS 2.0
/* The end of a reaped child may have a slightly later timestamp than that of its parent: the kernel
 * reports it when the parent runs already. */
#define STAMP_SLACK_SECONDS 0.0005
/* Equal statuses below this may be a coincidence: most failures have 1. This one may be, too, if
 * a shell did more after the failure of a child, unless the child is a make. */
#define SPECIFIC_STATUS 2
/* Statuses from this on have a meaning by convention, so several failures may have the same. */
#define CONVENTIONAL_STATUS 126
/* The status of GNU parallel if more jobs have failed than it counts in a status. */
#define COUNTED_MAX 100

static bool ended_at_once(const struct failed_parent *parent)
{
    return parent->end->timestamp - parent->child_ended <= AT_ONCE_SECONDS;
}

static bool ended_last(const struct failed_parent *parent, const struct failed_child *child)
{
    return !child->is_followed &&
           child->end->timestamp >= parent->child_ended - STAMP_SLACK_SECONDS;
}

/* Returns whether a process that passes the child's failure on ends in this way. */
static bool has_same_end(const struct failed_parent *parent, const struct failed_child *child)
{
    const struct process_event *end = child->end;

    if (parent->end->event_type != EVENT_EXIT)
        return int_is_known(end->signal_num) && end->signal_num == parent->end->signal_num;
    return int_is_known(end->signal_num) ? parent->end->exit_code == SIGNAL_STATUS(end->signal_num)
                                         : parent->end->exit_code == end->exit_code;
}

/* Returns whether the child was killed without being asked to end, and not by its parent. */
static bool has_crashed(const struct failed_parent *parent, const struct failed_child *child)
{
    const struct process_event *end = child->end;

    return (end->event_type == EVENT_OOM || signal_is_crash(end->signal_num)) &&
           end->sender_pid != parent->end->pid;
}

/* Returns whether the parent ended the child itself, or may have asked it to end. */
static bool was_asked_to_end(const struct failed_parent *parent, const struct failed_child *child)
{
    const struct process_event *end = child->end;
    bool is_request = end->event_type == EVENT_KILL && !signal_is_crash(end->signal_num);

    return int_is_known(end->sender_pid) ? end->sender_pid == parent->end->pid : is_request;
}

/* Returns whether the script of the parent, the conventions of shells or the equal status prove
 * that the child is the reason. */
static bool is_proven(const struct failed_parent *parent, const struct failed_child *child,
                      enum program_kind kind)
{
    char name[PROGRAM_MAX_BYTES + 1];
    const struct process_event *end = parent->end;
    bool is_named = program_or_script(child->end->command, name);
    bool is_last = ended_last(parent, child) && ended_at_once(parent);
    bool is_same = has_same_end(parent, child);
    bool is_specific = is_same && end->exit_code >= SPECIFIC_STATUS;
    /* `make; s=$?; rm -r tmp; exit $s` */
    bool is_kept = kind == PROGRAM_SHELL && ended_at_once(parent) &&
                   end->exit_code < CONVENTIONAL_STATUS &&
                   (end->exit_code > SPECIFIC_STATUS ||
                    program_kind(child->end->command, end->exit_code) == PROGRAM_RUNNER);

    switch (inline_script_end(end->command, is_named ? name : NULL, end->exit_code)) {
    case SCRIPT_SETS_STATUS: return false;
    case SCRIPT_STOPS:
        if (is_last)
            return true;
        break;
    case SCRIPT_PASSES_ON:
        if (is_last && is_same)
            return true;
        break;
    case SCRIPT_UNKNOWN: break;
    }
    if (is_specific && (is_last || is_kept))
        return true;
    if (kind != PROGRAM_SHELL || !is_last)
        return false;
    return (is_same && !program_may_answer(child->end)) ||
           (has_crashed(parent, child) && end->exit_code == 1);
}

/* Returns the first child that has led to the status of a program that runs others. */
static size_t find_explained(const struct failed_parent *parent)
{
    const struct process_event *end = parent->end;
    bool keeps_going = parent->keeps_going || program_keeps_going(end->command, end->exit_code);
    size_t i = 0;

    while (i < parent->count &&
           ((parent->children[i].is_followed && !keeps_going) ||
            !program_explains(end->command, end->exit_code, parent->children[i].end)))
        i++;
    return i;
}

/* Returns the first failed job of a program whose status counts them: it runs them last. If that
 * one is no longer known, returns the last. */
static size_t find_counted(const struct failed_parent *parent)
{
    uint64_t jobs = (uint64_t)parent->end->exit_code;

    for (size_t i = 0; i < parent->count; i++)
        if (parent->children[i].later_failures + 1 == jobs)
            return i;
    bool are_enough = parent->count && parent->children[0].later_failures >= jobs;
    return are_enough && jobs <= COUNTED_MAX + 1 ? parent->count - 1 : parent->count;
}

/* Returns the last child that ended in the same way; the count: none did. */
static size_t find_same(const struct failed_parent *parent)
{
    for (size_t i = parent->count; i > 0; i--)
        if (has_same_end(parent, &parent->children[i - 1]))
            return i - 1;
    return parent->count;
}

/* Returns the child whose end a wrapper passes on. Before it, the wrapper may have started others,
 * which failed without a consequence. */
static size_t find_passed_on(const struct failed_parent *parent)
{
    const struct process_event *end = parent->end;
    size_t at = find_same(parent);
    bool is_reason = at < parent->count &&
                     program_explains(end->command, end->exit_code, parent->children[at].end) &&
                     (ended_last(parent, &parent->children[at]) ||
                      program_keeps_going(end->command, end->exit_code));

    return is_reason ? at : parent->count;
}

static struct failure_reason find_reason_of_exit(const struct failed_parent *parent)
{
    const struct process_event *end = parent->end;
    enum program_kind kind = program_kind(end->command, end->exit_code);
    size_t none = parent->count, at = none;

    if (kind == PROGRAM_TESTER)
        return (struct failure_reason){.at = none};
    if (kind == PROGRAM_RUNNER)
        at = find_explained(parent);
    else if (kind == PROGRAM_COUNTER)
        at = find_counted(parent);
    else if (kind == PROGRAM_WRAPPER)
        at = find_passed_on(parent);
    if (at < none && (ended_at_once(parent) || program_keeps_going(end->command, end->exit_code)))
        return (struct failure_reason){.at = at, .is_proven = true};
    for (size_t i = kind == PROGRAM_COUNTER ? 0 : none; i > 0; i--)
        if (is_proven(parent, &parent->children[i - 1], kind))
            return (struct failure_reason){.at = i - 1, .is_proven = true};
    if (kind == PROGRAM_COUNTER) /* a failure of one that it starts before its jobs */
        return (struct failure_reason){.at = none};
    size_t last = none;
    while (last > 0 && was_asked_to_end(parent, &parent->children[last - 1]))
        last--;
    const struct failed_child *open = last ? &parent->children[last - 1] : NULL;
    if (open && ended_at_once(parent) && !open->is_followed &&
        (has_same_end(parent, open) || kind == PROGRAM_RUNNER || !program_may_answer(open->end)))
        return (struct failure_reason){.at = last - 1};
    bool may_be_same = end->exit_code >= SPECIFIC_STATUS && kind != PROGRAM_RUNNER;
    return (struct failure_reason){.at = may_be_same ? find_same(parent) : none};
}

struct failure_reason failure_reason_find(const struct failed_parent *parent)
{
    const struct failed_child *last = parent->count ? &parent->children[parent->count - 1] : NULL;

    if (parent->end->event_type == EVENT_EXIT)
        return find_reason_of_exit(parent);
    /* a shell or a wrapper ends itself by the signal of its child */
    bool is_passed_on = last && parent->end->event_type == EVENT_KILL &&
                        parent->end->sender_pid == parent->end->pid && has_same_end(parent, last) &&
                        ended_last(parent, last) && ended_at_once(parent);
    return (struct failure_reason){.at = parent->count - is_passed_on, .is_proven = is_passed_on};
}
