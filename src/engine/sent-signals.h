/* The last signals that were sent to members of runs. The event of a kill may be in a later box
 * than the signal that caused it. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "model/event.h"

/* A whole process group may be signalled at once; the oldest are evicted. */
#define SENT_SIGNALS_MAX 256

struct sent_signals {
    struct remembered_signal {
        pid_t pid;
        int64_t number;
        uint64_t mono_ns; /* when */
        int64_t sender_pid;
        char sender_command[128];
        char details[32];
    } items[SENT_SIGNALS_MAX];
    size_t next;
};

/* Remembers a signal. */
void sent_signals_add(struct sent_signals *sent, pid_t pid, const struct process_event *signal,
                      uint64_t now_ns);

/* Redacts the texts with other words (model/redact.h). */
void sent_signals_redact(struct sent_signals *sent, const struct text_list *words);

/* Sets the sender of a kill that has none to the last process that sent this signal to the killed
 * process, if that was recently. Texts are placed in `arena`. */
void sent_signals_fill_sender(const struct sent_signals *sent, struct arena *arena, uint64_t now_ns,
                              struct process_event *kill);
