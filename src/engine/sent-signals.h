/* The last signals that were on their way to members of runs: a kill may come a tick later than the
 * signal that did it, when that has been handed on already. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "model/event.h"

/* A whole group may be signalled at once; of more, the oldest are forgotten. */
#define SENT_SIGNALS_MAX 256

struct sent_signals {
    struct {
        pid_t pid;
        int64_t number;
        uint64_t mono_ns; /* when */
        int64_t sender_pid;
        char sender_command[128];
        char details[32];
    } items[SENT_SIGNALS_MAX];
    size_t next;
};

void sent_signals_note(struct sent_signals *sent, pid_t pid, const struct process_event *signal,
                       uint64_t now_ns);

/* Tells a kill its sender, if it does not know it: whoever sent that signal last, not long ago.
 * Texts are placed in `arena`. */
void sent_signals_name(const struct sent_signals *sent, struct arena *arena, uint64_t now_ns,
                       struct process_event *kill);
