/* What is read of a process once, for the rules that say which job it belongs to. */
#pragma once

#include <stdint.h>

#include "model/field.h"

/* What of it is wanted. */
enum process_fact {
    FACT_COMMAND = 1 << 0,
    FACT_CWD = 1 << 1,
    FACT_CGROUP = 1 << 2,
    FACT_ENVIRONMENT = 1 << 3, /* only the variables that are named */
};

struct fact_request {
    unsigned facts;         /* enum process_fact */
    struct text_list names; /* of variables */
};

/* A fact that could not be read is NULL. All texts are valid UTF-8, cut where a limit says so. */
struct process_facts {
    const char *command; /* arguments apart by blanks, not cut at COMMAND_MAX_BYTES */
    const char *cwd;
    const char *cgroup;      /* the path in the unified hierarchy, else in one of version 1 */
    struct text_list values; /* in the order of fact_request.names; NULL: not set */
    int64_t uid;
};
