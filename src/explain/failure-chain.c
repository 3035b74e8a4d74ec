#include "explain/failure-chain.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "base/uuid.h"
#include "explain/failure-reason.h"
#include "explain/program-kind.h"
#include "model/record-copy.h"
#include "model/redact.h"
#include "model/signal-kind.h"

/* With more living processes, all data is dropped, and there are no chains. */
#define LIVING_MAX 65536
/* How many failed children of one process are kept. */
#define FAILED_MAX 16
/* How many of them are kept when the process starts another child: it has handled these failures,
 * unless it ends with the status of one of them. */
#define FAILED_EARLIER_MAX 4
/* The end of a reaped child may have a slightly later timestamp than that of its parent: the kernel
 * reports it when the parent runs already. */
#define STAMP_SLACK_SECONDS 0.0005

/* The failure of a process and its reason. Reference-counted. */
struct failure {
    unsigned uses;
    struct failure *below; /* the failed child that led to this one; NULL: it was the first */
    bool is_proven;        /* the child did lead to it; otherwise it failed on the way */
    uint64_t order;
    uint64_t number; /* counts the failed children of its parent */
    bool is_past; /* it was a first process of its run, and another first process started since */
    struct process_event event;
    char *late_details;    /* of an OOM kill that was reported after the end; NULL: none */
    unsigned redaction;    /* the last one that it had: the number of the call */
    struct arena redacted; /* texts that redaction has replaced */
    char texts[];          /* the other texts of the event */
};

struct living {
    pid_t pid;
    pid_t ppid;
    uint64_t birth;        /* the number of its start event: a unique id */
    uint64_t parent_birth; /* 0: unknown */
    bool is_first;         /* its parent is in no run, or in another run */
    char run_id[UUID_TEXT_SIZE];
    char *command;                      /* NULL: unknown */
    struct process_event *oom;          /* the event of its OOM kill; NULL: none */
    uint64_t child_started;             /* number of the event of its last child's start; 0: none */
    double child_ended;                 /* time when its last child ended; unknown: none */
    struct failure *failed[FAILED_MAX]; /* its failed children, in the order of their ends */
    size_t failed_count;
    uint64_t failures;   /* number of its failed children, also of those that are not kept */
    bool keeps_going;    /* it or a process above it is a make with -k */
    size_t children;     /* number of children whose end is not reported yet */
    struct failure *end; /* its own end, reported before those of its children; NULL: it lives */
};

/* ---- failures ---- */

static void failure_unref(struct failure *failure)
{
    while (failure && --failure->uses == 0) {
        struct failure *below = failure->below;
        free(failure->late_details);
        arena_done(&failure->redacted);
        free(failure);
        failure = below;
    }
}

static struct failure *failure_ref(struct failure *failure)
{
    if (failure)
        failure->uses++;
    return failure;
}

static size_t size_of_text(const char *text)
{
    return text ? strlen(text) + 1 : 0;
}

static const char *append_text(const char *text, char **at)
{
    size_t size = size_of_text(text);
    char *place = *at;

    if (!text)
        return NULL;
    memcpy(place, text, size);
    *at += size;
    return place;
}

/* Copies the event and its texts, except a list of system calls. Returns NULL if out of memory. */
static struct failure *failure_new(const struct process_event *event, uint64_t order)
{
    const char *details = event->details_are_calls ? NULL : event->details;
    const char *const texts[] = {event->command, event->sender_command, details, event->job_id,
                                 event->run_id};
    size_t size = sizeof(struct failure);

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        size += size_of_text(texts[i]);
    struct failure *failure = malloc(size);
    if (!failure)
        return NULL;
    *failure = (struct failure){.uses = 1, .order = order, .event = *event};
    char *at = failure->texts;
    failure->event.command = append_text(event->command, &at);
    failure->event.sender_command = append_text(event->sender_command, &at);
    failure->event.details = append_text(details, &at);
    failure->event.job_id = append_text(event->job_id, &at);
    failure->event.run_id = append_text(event->run_id, &at);
    return failure;
}

/* ---- processes ---- */

static void remove_failed(struct living *living, size_t at)
{
    failure_unref(living->failed[at]);
    living->failed_count--;
    memmove(&living->failed[at], &living->failed[at + 1],
            (living->failed_count - at) * sizeof(living->failed[0]));
}

static void living_free(struct living *living)
{
    if (!living)
        return;
    for (size_t i = 0; i < living->failed_count; i++)
        failure_unref(living->failed[i]);
    failure_unref(living->end);
    free(living->command);
    free(living->oom);
    free(living);
}

static struct living *find_living(const struct failure_chains *chains, int64_t pid)
{
    return pid > 0 ? map_get(&chains->living, (uint64_t)pid) : NULL;
}

/* Returns the parent, also if its end was reported before that of the child. */
static struct living *find_parent(const struct failure_chains *chains, const struct living *child)
{
    struct living *parent = find_living(chains, child->ppid);

    if (!child->parent_birth || (parent && parent->birth == child->parent_birth))
        return child->parent_birth ? parent : NULL;
    for (size_t i = 0; i < FAILURE_CHAINS_EARLY_MAX; i++)
        if (chains->early[i] && chains->early[i]->birth == child->parent_birth)
            return chains->early[i];
    return NULL;
}

/* Drops the early ends of the run; NULL: of all runs. */
static void drop_early(struct failure_chains *chains, const char *run_id)
{
    for (size_t i = 0; i < FAILURE_CHAINS_EARLY_MAX; i++)
        if (chains->early[i] && (!run_id || strcmp(chains->early[i]->run_id, run_id) == 0)) {
            living_free(chains->early[i]);
            chains->early[i] = NULL;
        }
}

void failure_chains_drop_living(struct failure_chains *chains)
{
    size_t position = 0;

    for (struct living *living; (living = map_next(&chains->living, &position));)
        living_free(living);
    map_clear(&chains->living);
    drop_early(chains, NULL);
}

void failure_chains_done(struct failure_chains *chains)
{
    failure_chains_drop_living(chains);
    map_done(&chains->living);
    for (size_t i = 0; i < FAILURE_CHAINS_ENDED_MAX; i++)
        failure_unref(chains->ended[i]);
    *chains = (struct failure_chains){0};
}

void failure_chains_forget_run(struct failure_chains *chains, const char *run_id)
{
    size_t position = 0;

    for (struct living *living; (living = map_next(&chains->living, &position));)
        if (strcmp(living->run_id, run_id) == 0) {
            map_remove(&chains->living, (uint64_t)living->pid);
            living_free(living);
            position--; /* another may have moved into its place */
        }
    drop_early(chains, run_id);
    for (size_t i = 0; i < FAILURE_CHAINS_ENDED_MAX; i++)
        if (chains->ended[i] && strcmp(chains->ended[i]->event.run_id, run_id) == 0) {
            failure_unref(chains->ended[i]);
            chains->ended[i] = NULL;
        }
}

/* Chains share their ends: the rest of a chain that this call has reached before is redacted. */
static void redact_failures(const struct failure_chains *chains, const struct text_list *words,
                            struct failure *failure)
{
    for (; failure && failure->redaction != chains->redactions; failure = failure->below) {
        failure->redaction = chains->redactions;
        redact_record(words, &process_event_record, &failure->redacted, &failure->event);
    }
}

static void redact_living(const struct failure_chains *chains, const struct text_list *words,
                          struct living *living)
{
    _cleanup_text_ struct text hidden = {0};
    int r = words && living->command ? redact_text(living->command, words, &hidden) : 0;

    if (r != 0) {
        free(living->command);
        living->command = r > 0 ? strdup(text_string(&hidden)) : NULL;
    }
    redact_failures(chains, words, living->end);
    for (size_t i = 0; i < living->failed_count; i++)
        redact_failures(chains, words, living->failed[i]);
}

void failure_chains_redact(struct failure_chains *chains, const struct text_list *words)
{
    size_t position = 0;

    chains->redactions++;
    for (struct living *living; (living = map_next(&chains->living, &position));)
        redact_living(chains, words, living);
    for (size_t i = 0; i < FAILURE_CHAINS_EARLY_MAX; i++)
        if (chains->early[i])
            redact_living(chains, words, chains->early[i]);
    for (size_t i = 0; i < FAILURE_CHAINS_ENDED_MAX; i++)
        redact_failures(chains, words, chains->ended[i]);
}

static int set_command(struct living *living, const char *command)
{
    char *copy = command ? strdup(command) : NULL;

    if (command && !copy)
        return -ENOMEM;
    free(living->command);
    living->command = copy;
    return 0;
}

/* ---- starts ---- */

/* A process that starts another one has handled earlier failures. A few of them are kept, because
 * the process may still end with their status. */
static void record_child_start(struct living *parent, uint64_t order)
{
    parent->child_started = order;
    while (parent->failed_count > FAILED_EARLIER_MAX)
        remove_failed(parent, 1); /* make -k and xargs end because of the first */
}

/* A run with a new first process (a retry, or the next step) has handled the failures of earlier
 * ones. */
static void mark_earlier_ends(struct failure_chains *chains, const char *run_id)
{
    for (size_t i = 0; i < FAILURE_CHAINS_ENDED_MAX; i++)
        if (chains->ended[i] && strcmp(chains->ended[i]->event.run_id, run_id) == 0)
            chains->ended[i]->is_past = true;
}

static int handle_spawn(struct failure_chains *chains, const struct process_event *event)
{
    struct living *parent = find_living(chains, event->ppid);
    struct living *living = calloc(1, sizeof(*living));

    if (!living)
        return -ENOMEM;
    living_free(map_remove(&chains->living, (uint64_t)event->pid)); /* its end was not reported */
    living->pid = (pid_t)event->pid;
    living->ppid = parent ? parent->pid : 0;
    living->birth = chains->order;
    living->parent_birth = parent ? parent->birth : 0;
    living->is_first = !parent || strcmp(parent->run_id, event->run_id) != 0;
    living->child_ended = REAL_UNKNOWN;
    strncpy(living->run_id, event->run_id, sizeof(living->run_id) - 1);
    living->keeps_going = parent && parent->keeps_going;
    const char *command = event->command ? event->command : parent ? parent->command : NULL;
    int r = chains->living.count < LIVING_MAX ? set_command(living, command) : -ENOMEM;
    if (r == 0)
        r = map_put(&chains->living, (uint64_t)living->pid, living);
    if (r < 0) {
        living_free(living);
        return r;
    }
    if (parent) {
        record_child_start(parent, chains->order);
        parent->children++;
    }
    if (living->is_first)
        mark_earlier_ends(chains, living->run_id);
    return 0;
}

/* The program that saw the earlier failures is gone: they are handled. */
static int handle_exec(struct failure_chains *chains, const struct process_event *event)
{
    struct living *living = find_living(chains, event->pid);

    if (!living)
        return 0;
    while (living->failed_count && living->failed[0]->event.timestamp < event->timestamp)
        remove_failed(living, 0);
    if (event->command && program_has_letter_k(event->command))
        living->keeps_going = true;
    return set_command(living, event->command);
}

/* Returns the later one of `latest` and the last SIGKILL of that process in the chain. */
static struct failure *later_kill(struct failure *latest, struct failure *chain, int64_t pid)
{
    for (struct failure *failure = chain; failure; failure = failure->below)
        if (failure->event.pid == pid && failure->event.event_type == EVENT_KILL &&
            failure->event.signal_num == SIGKILL && (!latest || failure->order > latest->order))
            latest = failure;
    return latest;
}

/* The end may be reported before its reason: they come from two sources while the kernel collector
 * takes over. */
static int handle_late_oom(struct failure_chains *chains, const struct process_event *event)
{
    struct failure *killed = NULL;
    size_t position = 0;

    for (size_t i = 0; i < FAILURE_CHAINS_ENDED_MAX; i++)
        killed = later_kill(killed, chains->ended[i], event->pid);
    for (struct living *living; (living = map_next(&chains->living, &position));)
        for (size_t i = 0; i < living->failed_count; i++)
            killed = later_kill(killed, living->failed[i], event->pid);
    if (!killed)
        return 0;
    killed->event.event_type = EVENT_OOM;
    if (!event->details)
        return 0;
    killed->late_details = strdup(event->details);
    if (!killed->late_details)
        return -ENOMEM;
    killed->event.details = killed->late_details;
    return 0;
}

static int handle_oom(struct failure_chains *chains, const struct process_event *event)
{
    struct living *living = find_living(chains, event->pid);
    size_t size = size_of_text(event->details);

    if (!living)
        return handle_late_oom(chains, event);
    if (living->oom)
        return 0;
    living->oom = malloc(sizeof(*living->oom) + size);
    if (!living->oom)
        return -ENOMEM;
    char *at = (char *)(living->oom + 1);
    *living->oom = *event;
    living->oom->details = append_text(event->details, &at);
    return 0;
}

/* ---- ends ---- */

static size_t chain_length(const struct failure *failure)
{
    size_t length = 0;

    for (; failure; failure = failure->below)
        length++;
    return length;
}

/* Sets the reason of a failure to the failed child that led to it or failed on the way. */
static void set_reason(const struct living *living, struct failure *failure)
{
    struct failed_child children[FAILED_MAX];
    struct failed_parent parent = {.end = &failure->event,
                                   .children = children,
                                   .count = living->failed_count,
                                   .child_ended = living->child_ended,
                                   .keeps_going = living->keeps_going};

    for (size_t i = 0; i < living->failed_count; i++) {
        const struct failure *child = living->failed[i];
        children[i] = (struct failed_child){.end = &child->event,
                                            .later_failures = living->failures - child->number,
                                            .is_followed = living->child_started > child->order};
    }
    struct failure_reason reason = failure_reason_find(&parent);
    struct failure *below = reason.at < parent.count ? living->failed[reason.at] : NULL;
    failure->is_proven = reason.is_proven;
    if (chain_length(below) >= FAILURE_CHAIN_MAX) { /* drop this link: the first failure stays */
        failure->is_proven &= below->is_proven;
        below = below->below;
    }
    failure_ref(below);
    failure_unref(failure->below);
    failure->below = below;
}

static void add_failed(struct living *parent, struct failure *failure)
{
    if (parent->failed_count == FAILED_MAX)
        remove_failed(parent, FAILED_MAX / 2); /* the first and the last ones matter most */
    failure->number = ++parent->failures;
    parent->failed[parent->failed_count++] = failure_ref(failure);
}

static void add_ended(struct failure_chains *chains, struct failure *failure)
{
    struct failure **place = &chains->ended[chains->ended_count++ % FAILURE_CHAINS_ENDED_MAX];

    failure_unref(*place);
    *place = failure_ref(failure);
}

/* The event may have only the short name of a sender in the same run. Of other senders, which may
 * belong to another user, the chain has no more than the event. */
static void name_sender(const struct failure_chains *chains, struct process_event *end)
{
    const struct living *sender = find_living(chains, end->sender_pid);

    if (sender && strcmp(sender->run_id, end->run_id) == 0 &&
        size_of_text(sender->command) > size_of_text(end->sender_command))
        end->sender_command = sender->command;
}

/* Returns the end event with the command line, the sender's command line and the OOM kill added. */
static struct process_event complete_end(const struct failure_chains *chains,
                                         const struct living *living,
                                         const struct process_event *event)
{
    struct process_event end = *event;

    if (!end.command)
        end.command = living->command;
    if (end.event_type == EVENT_EXIT && (!end.details || end.details_are_calls)) {
        end.details = program_status_meaning(end.command, end.exit_code);
        end.details_are_calls = false;
    }
    name_sender(chains, &end);
    if (living->oom && end.event_type == EVENT_KILL) {
        end.event_type = EVENT_OOM;
        end.details = living->oom->details ? living->oom->details : end.details;
    }
    return end;
}

/* Records the failure of a process. Returns a reference to it, or NULL if out of memory. */
static struct failure *record_failure(struct failure_chains *chains, const struct living *living,
                                      struct living *parent, const struct process_event *event)
{
    const struct process_event end = complete_end(chains, living, event);
    struct failure *failure = failure_new(&end, chains->order);

    if (!failure)
        return NULL;
    set_reason(living, failure);
    if (parent)
        add_failed(parent, failure);
    if (living->is_first)
        add_ended(chains, failure);
    return failure;
}

/* Keeps an ended process whose children may have ended before it, although their ends are not
 * reported yet. */
static void store_early(struct failure_chains *chains, struct living *living, struct failure *end)
{
    struct living **place = &chains->early[chains->early_count++ % FAILURE_CHAINS_EARLY_MAX];

    living_free(*place);
    *place = living;
    living->end = end;
}

static void remove_child(struct failure_chains *chains, struct living *parent)
{
    if (--parent->children || !parent->end)
        return;
    for (size_t i = 0; i < FAILURE_CHAINS_EARLY_MAX; i++)
        if (chains->early[i] == parent)
            chains->early[i] = NULL;
    living_free(parent);
}

static int handle_end(struct failure_chains *chains, const struct process_event *event)
{
    struct living *living = map_remove(&chains->living, (uint64_t)event->pid);
    struct failure *failure = NULL;

    if (!living)
        return 0;
    struct living *parent = find_parent(chains, living);
    bool is_orphan = !parent || (parent->end && event->timestamp > parent->end->event.timestamp +
                                                                       STAMP_SLACK_SECONDS);
    bool has_failed = event_is_failure(event);
    if (!is_orphan)
        parent->child_ended = fmax(parent->child_ended, event->timestamp);
    if (has_failed)
        failure = record_failure(chains, living, is_orphan ? NULL : parent, event);
    if (!is_orphan && parent->end) /* another child had ended before */
        set_reason(parent, parent->end);
    if (parent)
        remove_child(chains, parent);
    if (failure && living->children && event->event_type == EVENT_EXIT) {
        store_early(chains, living, failure);
        return 0;
    }
    failure_unref(failure);
    living_free(living);
    return has_failed && !failure ? -ENOMEM : 0;
}

void failure_chains_add(struct failure_chains *chains, const struct process_event *event)
{
    int r = 0;

    if (event->is_step == TRUTH_YES || !event->run_id || event->pid <= 0)
        return;
    chains->order++;
    switch (event->event_type) {
    case EVENT_SPAWN: r = handle_spawn(chains, event); break;
    case EVENT_EXEC: r = handle_exec(chains, event); break;
    case EVENT_OOM: r = handle_oom(chains, event); break;
    case EVENT_EXIT:
    case EVENT_KILL: r = handle_end(chains, event); break;
    default: break;
    }
    if (r < 0)
        failure_chains_drop_living(chains);
}

/* ---- lookup ---- */

const char *failure_chains_command(const struct failure_chains *chains, int64_t pid)
{
    const struct living *living = find_living(chains, pid);

    return living ? living->command : NULL;
}

static bool has_ended_with(const struct process_event *end, int64_t exit_code, int64_t signal_num)
{
    return int_is_known(signal_num) ? end->signal_num == signal_num
                                    : int_is_known(exit_code) && end->exit_code == exit_code;
}

static const struct failure *find_end(const struct failure_chains *chains, const char *run_id,
                                      pid_t pid, int64_t exit_code, int64_t signal_num)
{
    size_t kept = MIN(chains->ended_count, (size_t)FAILURE_CHAINS_ENDED_MAX);

    for (size_t back = 1; back <= kept; back++) {
        const struct failure *end =
            chains->ended[(chains->ended_count - back) % FAILURE_CHAINS_ENDED_MAX];
        if (end && strcmp(end->event.run_id, run_id) == 0 &&
            (pid ? end->event.pid == pid : !end->is_past) &&
            has_ended_with(&end->event, exit_code, signal_num))
            return end;
    }
    return NULL;
}

/* Copies the proven chain that begins with `end`, as a list that ends with it. Sets `ret_first` to
 * its first failure. Returns 0 or -ENOMEM. */
static int copy_chain(const struct failure *end, struct arena *arena,
                      const struct failure **ret_first, struct process_event_list *ret)
{
    size_t length = 1, count;
    int r = 0;

    for (const struct failure *at = end; at->is_proven && at->below; at = at->below)
        length++;
    count = MIN(length, (size_t)FAILURE_CHAIN_MAX);
    struct process_event *items = arena_alloc(arena, count * sizeof(*items));
    if (!items)
        return -ENOMEM;
    for (size_t i = count; i > 0 && r == 0; i--) {
        r = record_copy(&process_event_record, &end->event, arena, &items[i - 1]);
        *ret_first = end;
        end = end->below;
        for (; i == count && length > count; length--) /* as set_reason() does */
            end = end->below;
    }
    if (r == 0)
        *ret = (struct process_event_list){.items = items, .count = count};
    return r;
}

int failure_chains_find(const struct failure_chains *chains, const char *run_id, pid_t pid,
                        int64_t exit_code, int64_t signal_num, struct arena *arena,
                        struct process_event_list *ret_chain,
                        struct process_event_list *ret_on_the_way)
{
    const struct failure *end = find_end(chains, run_id, pid, exit_code, signal_num), *first;
    struct process_event_list chain, on_the_way = {0};

    if (!end)
        return -ENOENT;
    int r = copy_chain(end, arena, &first, &chain);
    if (r == 0 && first->below)
        r = copy_chain(first->below, arena, &first, &on_the_way);
    if (r < 0)
        return r;
    *ret_chain = chain;
    *ret_on_the_way = on_the_way;
    return 0;
}
