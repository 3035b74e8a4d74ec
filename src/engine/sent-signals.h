/* The last signals sent to members of runs. A kill may come in a later box than the signal that
 * caused it. */
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

void sent_signals_add(struct sent_signals *sent, pid_t pid, const struct process_event *signal,
                      uint64_t now_ns);

/* Sets the sender of a kill that has none, if that signal was sent to the process recently: its
 * last sender. Texts are placed in `arena`. */
void sent_signals_fill_sender(const struct sent_signals *sent, struct arena *arena, uint64_t now_ns,
                              struct process_event *kill);
