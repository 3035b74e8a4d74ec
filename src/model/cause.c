#include "model/cause.h"

#include <stdio.h>
#include <string.h>

#include "base/human.h"
#include "base/text.h"
#include "base/utf8.h"
#include "model/process.h"
#include "model/signal-kind.h"

/* A long chain shows only its first and last links: the origin of the failure and its effect on the
 * run. */
#define FIRST_SHOWN 4
#define LAST_SHOWN  2
#define ON_THE_WAY  "; failed on the way: "
/* Bytes of a sender's command line that are shown. */
#define SENDER_MAX_BYTES 120

/* Appends who sent the signal; nothing if the sender is unknown. */
static void append_sender(const struct process_event *end, struct text *out)
{
    char command[SENDER_MAX_BYTES + 1] = "";

    if (!int_is_known(end->sender_pid))
        return;
    if (end->sender_pid == 0) {
        bool is_own = signal_is_fault(end->signal_num);
        text_append_string(out, is_own ? ", a fault of its own" : ", sent by the kernel");
        return;
    }
    if (end->sender_pid == end->pid) {
        text_append_string(out, ", sent by itself");
        return;
    }
    text_printf(out, ", sent by pid %lld", (long long)end->sender_pid);
    if (end->sender_command)
        utf8_clean(command, sizeof(command), end->sender_command, strlen(end->sender_command));
    if (command[0])
        text_printf(out, " (%s)", command);
}

static void append_kill(const struct process_event *end, struct text *out)
{
    struct human name;

    if (end->event_type == EVENT_OOM) {
        text_append_string(out, OOM_KILL_TEXT);
        if (real_is_known(end->peak_rss_mb))
            text_printf(out, " at %s", human_mb(&name, end->peak_rss_mb));
        return;
    }
    text_printf(out, "killed by %s",
                int_is_known(end->signal_num) ? human_signal(&name, (int)end->signal_num)
                                              : "a signal");
    if (end->details)
        text_printf(out, ", %s", end->details);
    append_sender(end, out);
}

/* "exited 1 (tests failed)" */
static void append_exit(const char *verb, const struct process_event *end, struct text *out)
{
    text_printf(out, "%s %lld", verb, (long long)end->exit_code);
    if (end->details)
        text_printf(out, " (%s)", end->details);
}

/* "cc1 (4711) killed by SIGKILL", "→ cc exited 1". Only the first link has its pid, because users
 * search for that process. */
static void append_link(const struct process_event *end, bool is_first, struct text *out)
{
    char program[PROGRAM_MAX_BYTES + 1];
    bool is_named = end->command && command_program(end->command, program);

    text_append_string(out, is_first ? "" : " → ");
    if (is_named)
        text_append_string(out, program);
    if (is_named && is_first)
        text_printf(out, " (%lld)", (long long)end->pid);
    if (!is_named)
        text_printf(out, "pid %lld", (long long)end->pid);
    text_append_char(out, ' ');
    if (end->event_type == EVENT_EXIT)
        append_exit("exited", end, out);
    else
        append_kill(end, out);
}

static void append_chain(const struct process_event_list *chain, struct text *out)
{
    bool is_cut = chain->count > FIRST_SHOWN + LAST_SHOWN;

    for (size_t i = 0; i < chain->count; i++) {
        if (is_cut && i == FIRST_SHOWN) {
            text_append_string(out, " → …");
            i = chain->count - LAST_SHOWN;
        }
        append_link(&chain->items[i], i == 0, out);
    }
}

void cause_format(const struct process_event_list *chain,
                  const struct process_event_list *on_the_way,
                  char into[static CAUSE_MAX_BYTES + 1])
{
    _cleanup_text_ struct text out = {0};

    into[0] = '\0';
    if (!chain->count)
        return;
    const struct process_event *last = &chain->items[chain->count - 1];
    if (last->event_type == EVENT_EXIT)
        append_exit("exit status", last, &out);
    else
        append_kill(last, &out);
    if (chain->count > 1) {
        text_append_string(&out, ": ");
        append_chain(chain, &out);
    }
    if (on_the_way->count) {
        text_append_string(&out, ON_THE_WAY);
        append_chain(on_the_way, &out);
    }
    if (text_error(&out) == 0)
        utf8_clean(into, CAUSE_MAX_BYTES + 1, out.bytes, out.length);
}

bool cause_is_of_chain(const char *cause, const struct process_event_list *chain)
{
    char from_chain[CAUSE_MAX_BYTES + 1];

    cause_format(chain, &(struct process_event_list){0}, from_chain);
    size_t length = strlen(from_chain);
    return cause && length && strncmp(cause, from_chain, length) == 0 &&
           (!cause[length] || strncmp(cause + length, ON_THE_WAY, strlen(ON_THE_WAY)) == 0);
}

/* Returns whether the cause names a signal whose sender is unknown, unless processes or the kernel
 * raise such a signal themselves. The first link of a chain is the process that failed first. */
static bool misses_sender(const char *cause, const struct process_event_list *chain)
{
    const struct process_event *first = chain->items;
    struct human name;

    return first->event_type == EVENT_KILL && !int_is_known(first->sender_pid) && !first->details &&
           signal_has_sender(first->signal_num) &&
           strstr(cause, human_signal(&name, (int)first->signal_num));
}

/* Returns the first link that the cause shows by its pid only; NULL: none. */
static const struct process_event *find_unnamed(const char *cause,
                                                const struct process_event_list *chain)
{
    char shown[32];

    for (size_t i = 0; chain->count > 1 && i < chain->count; i++) {
        snprintf(shown, sizeof(shown), "pid %lld ", (long long)chain->items[i].pid);
        if (!chain->items[i].command && strstr(cause, shown))
            return &chain->items[i];
    }
    return NULL;
}

void cause_append_hint(const char *cause, const struct process_event_list *chain,
                       const char *collector, struct text *out)
{
    const struct process_event *unnamed = find_unnamed(cause, chain);
    bool has_no_sender = chain->count && misses_sender(cause, chain);
    struct human name;

    if (unnamed)
        text_printf(out, "; pid %lld ended before its name was read", (long long)unnamed->pid);
    if (has_no_sender && chain->count == 1)
        text_append_string(out, ", sender unknown");
    else if (has_no_sender)
        text_printf(out, "; sender of %s unknown",
                    human_signal(&name, (int)chain->items[0].signal_num));
    /* The collector may have been loaded too late. Without one, a run records neither whether a
     * daemon observed it nor why there was none, so the text names every way to have one. */
    bool has_collector = collector && strcmp(collector, "bpf") == 0;
    if (unnamed && has_collector)
        text_append_string(out, " (to see it: as root, use --exact)");
    else if (unnamed || (has_no_sender && !has_collector))
        text_append_string(
            out,
            " (to see it: run as root, or with a daemon; for short runs of root, use --exact)");
}
