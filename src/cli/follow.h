/* `sonde events --follow`: prints stored events, then new ones as they happen, one per line, until
 * interrupted or until the reader of stdout ends. If the daemon goes away, waits for it. */
#pragma once

#include "cli/command.h"
#include "cli/open-reader.h"
#include "report/event-line.h"

struct follow_options {
    const struct command *command;
    const struct command_context *context;
    const char *job;            /* a job_id or a run_id; NULL: any */
    struct event_filter filter; /* only since, event_types, pid and limit (0: none) are used */
    bool as_json;               /* print JSON envelopes, one per line */
};

/* Prints events until the end. Returns the exit status; EXIT_NO_DATA: there is no daemon. */
int follow_events(const struct follow_options *options);

/* Whether the options select the event. With an event type, only process events match. */
bool follow_matches(const struct follow_options *options, const struct event_line *line);
