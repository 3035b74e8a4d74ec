/* News as one line of a timeline, in one piece, so that it can be kept and handed on. */
#pragma once

#include "report/news.h"

struct headline {
    double timestamp;
    const char *event; /* `process.exit`, `monitor.anomaly` */
    const char *word;  /* "exit", "anomaly" */
    enum tint tint;
    int64_t pid; /* 0: of no process */
    const char *job_id;
    const char *run_id;
    const char *text; /* what, and the command line; made visible */
};

/* NULL: there is no memory. free() it. */
struct headline *headline_new(const struct news *news);
