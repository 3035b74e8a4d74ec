#include "engine/sent-signals.h"

#include <string.h>

#include "base/utf8.h"

static void copy(char *into, size_t size, const char *text)
{
    utf8_clean(into, size, text ? text : "", text ? strlen(text) : 0);
}

void sent_signals_note(struct sent_signals *sent, pid_t pid, const struct process_event *signal)
{
    size_t at = sent->next++ % SENT_SIGNALS_MAX;

    sent->items[at].pid = pid;
    sent->items[at].number = signal->signal_num;
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

void sent_signals_name(const struct sent_signals *sent, struct arena *arena,
                       struct process_event *kill)
{
    if (kill->event_type != EVENT_KILL || int_is_known(kill->sender_pid))
        return;
    for (size_t i = 0; i < SENT_SIGNALS_MAX; i++) {
        if (sent->items[i].pid != kill->pid || sent->items[i].number != kill->signal_num)
            continue;
        kill->sender_pid = sent->items[i].sender_pid;
        put(sent->items[i].sender_command, arena, &kill->sender_command);
        put(sent->items[i].details, arena, &kill->details);
    }
}
