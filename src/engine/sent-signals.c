#include "engine/sent-signals.h"

#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/utf8.h"

/* A process that has handled a signal for this long has survived it. */
#define BLAME_NS (10 * NS_PER_SEC)

static void copy(char *into, size_t size, const char *text)
{
    utf8_clean(into, size, text ? text : "", text ? strlen(text) : 0);
}

void sent_signals_note(struct sent_signals *sent, pid_t pid, const struct process_event *signal,
                       uint64_t now_ns)
{
    size_t at = sent->next++ % SENT_SIGNALS_MAX;

    sent->items[at].pid = pid;
    sent->items[at].number = signal->signal_num;
    sent->items[at].mono_ns = now_ns;
    sent->items[at].sender_pid = signal->sender_pid;
    copy(sent->items[at].sender_command, sizeof(sent->items[at].sender_command),
         signal->sender_command);
    copy(sent->items[at].details, sizeof(sent->items[at].details), signal->details);
}

/* Without memory the event has to do without words. */
static void put(const char *text, struct arena *arena, const char **into)
{
    if (text[0] && !*into)
        *into = arena_strdup(arena, text);
}

void sent_signals_name(const struct sent_signals *sent, struct arena *arena, uint64_t now_ns,
                       struct process_event *kill)
{
    if (kill->event_type != EVENT_KILL || int_is_known(kill->sender_pid))
        return;
    for (size_t back = 1; back <= MIN(sent->next, (size_t)SENT_SIGNALS_MAX); back++) {
        size_t at = (sent->next - back) % SENT_SIGNALS_MAX;
        if (sent->items[at].pid != kill->pid || sent->items[at].number != kill->signal_num ||
            now_ns - sent->items[at].mono_ns > BLAME_NS)
            continue;
        kill->sender_pid = sent->items[at].sender_pid;
        put(sent->items[at].sender_command, arena, &kill->sender_command);
        put(sent->items[at].details, arena, &kill->details);
        return;
    }
}
