/* `sonde events --follow`: what is stored, then what happens, a line each, until it is interrupted
 * or its reader has gone. A daemon that goes away is waited for. */
#pragma once

#include "cli/command.h"
#include "cli/open-reader.h"
#include "report/news.h"

struct follow_options {
    const struct command *command;
    const struct command_context *context;
    const char *job;            /* a job_id or a run_id; NULL: any */
    struct event_filter filter; /* of its members: since, event_type, pid, limit (0: none) */
    bool as_json;               /* envelopes, one a line */
};

/* Exit status. */
int follow_events(const struct follow_options *options);

/* Whether it is wanted. Of one type are events of processes alone. */
bool follow_wants(const struct follow_options *options, const struct news *news);
