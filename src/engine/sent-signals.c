#include "engine/sent-signals.h"

#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/utf8.h"
#include "model/redact.h"

/* An older signal is not the cause of a kill: the process has survived it. */
#define CAUSE_MAX_NS (10 * NS_PER_SEC)

static void copy(char *into, size_t size, const char *text)
{
    utf8_clean(into, size, text ? text : "", text ? strlen(text) : 0);
}

void sent_signals_add(struct sent_signals *sent, pid_t pid, const struct process_event *signal,
                      uint64_t now_ns)
{
    struct remembered_signal *item = &sent->items[sent->next++ % SENT_SIGNALS_MAX];

    item->pid = pid;
    item->number = signal->signal_num;
    item->mono_ns = now_ns;
    item->sender_pid = signal->sender_pid;
    copy(item->sender_command, sizeof(item->sender_command), signal->sender_command);
    copy(item->details, sizeof(item->details), signal->details);
}

void sent_signals_redact(struct sent_signals *sent, const struct text_list *words)
{
    for (size_t i = 0; i < MIN(sent->next, (size_t)SENT_SIGNALS_MAX); i++) {
        struct remembered_signal *item = &sent->items[i];
        redact_buffer(words, item->sender_command, sizeof(item->sender_command));
        redact_buffer(words, item->details, sizeof(item->details));
    }
}

/* Without memory the text stays NULL. */
static void copy_if_missing(const char *text, struct arena *arena, const char **into)
{
    if (text[0] && !*into)
        *into = arena_strdup(arena, text);
}

void sent_signals_fill_sender(const struct sent_signals *sent, struct arena *arena, uint64_t now_ns,
                              struct process_event *kill)
{
    if (kill->event_type != EVENT_KILL || int_is_known(kill->sender_pid))
        return;
    for (size_t back = 1; back <= MIN(sent->next, (size_t)SENT_SIGNALS_MAX); back++) {
        const struct remembered_signal *item = &sent->items[(sent->next - back) % SENT_SIGNALS_MAX];
        if (item->pid != kill->pid || item->number != kill->signal_num ||
            now_ns - item->mono_ns > CAUSE_MAX_NS)
            continue;
        kill->sender_pid = item->sender_pid;
        copy_if_missing(item->sender_command, arena, &kill->sender_command);
        copy_if_missing(item->details, arena, &kill->details);
        return;
    }
}
