/* Facts that are read once per process, for the rules that assign it to a job. */
#pragma once

#include <stdint.h>

#include "model/field.h"

/* The facts to read. */
enum process_fact {
    FACT_COMMAND = 1 << 0,
    FACT_CWD = 1 << 1,
    FACT_CGROUP = 1 << 2,
    FACT_ENVIRONMENT = 1 << 3, /* only the variables in `names` */
};

struct fact_request {
    unsigned facts;         /* enum process_fact */
    struct text_list names; /* of variables */
};

/* A fact that could not be read is NULL. All texts are valid UTF-8, truncated at their limits. */
struct process_facts {
    const char *command; /* arguments separated by blanks, not truncated at COMMAND_MAX_BYTES */
    const char *cwd;
    const char *cgroup;      /* the path in the unified hierarchy, else in a version 1 hierarchy */
    struct text_list values; /* in the order of fact_request.names; NULL: not set */
    int64_t uid;
};
