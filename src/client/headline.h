/* An event as one line of a timeline, with its texts in one allocation. */
#pragma once

#include "report/event-line.h"

struct headline {
    double timestamp;
    const char *event; /* `process.exit`, `monitor.anomaly` */
    const char *word;  /* "exit", "anomaly" */
    enum tint tint;
    int64_t pid; /* 0: of no process */
    const char *job_id;
    const char *run_id;
    const char *text; /* with the command line; escaped */
};

/* NULL without memory. Free it with free(). */
struct headline *headline_new(const struct event_line *news);
