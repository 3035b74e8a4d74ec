/* An event as one line of a timeline, with its texts in one allocation. */
#pragma once

#include "report/event-line.h"

struct headline {
    double timestamp;
    enum event_name name;
    const char *label; /* "exit", "anomaly" */
    enum tint tint;
    int64_t pid; /* 0: the event belongs to no process */
    const char *job_id;
    const char *run_id;
    const char *text; /* details and command line, escaped */
};

/* Makes the headline of an event. Returns NULL without memory. The caller frees it with free(). */
struct headline *headline_new(const struct event_line *line);
