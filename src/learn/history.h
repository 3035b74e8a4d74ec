/* The finished runs that correlation analyzes, in a compact form: half a million fit in memory. */
#pragma once

#include <stdbool.h>

#include "base/arena.h"
#include "base/map.h"
#include "base/vec.h"
#include "learn/learn-constants.h"
#include "model/run-digest.h"

/* At most two system calls can each have more than 35 % of the time. */
#define RUN_CALLS_MAX 2
/* The kernel has about 460 system calls; more names are forged. */
#define CALL_NAMES_MAX 1024
/* sonde knows eight types of anomalies. */
#define ANOMALY_NAMES_MAX 32

struct past_run {
    const char *job_type; /* NULL: none, or types are not distinguished */
    double memory_mb;
    double cpu_seconds;
    double duration_seconds;
    uint32_t anomalies;            /* one bit for each name in history->anomalies */
    uint16_t calls[RUN_CALLS_MAX]; /* index in history->calls + 1; 0: none */
    uint8_t call_source;           /* enum syscall_source */
    bool has_calls;                /* its system calls are known */
    bool has_failed;
};

struct name_list VEC(const char *);

struct history {
    const struct learn_constants *constants;
    bool by_type;                     /* analyze each job type by itself */
    struct VEC(struct past_run) runs; /* with a known outcome */
    size_t failures;
    size_t without_outcome;
    struct name_list calls;
    struct name_list anomalies;
    struct map types;   /* hash of a job type → its name */
    struct arena arena; /* owns the names */
};

void history_init(struct history *history, const struct learn_constants *constants, bool by_type);
void history_done(struct history *history);

/* Adds a copy of a run. Running runs are ignored; ended runs without a known outcome are only
 * counted. Returns 0 or -ENOMEM. */
int history_add(struct history *history, const struct run_digest *run);
/* Sorts the runs by job type; runs of a type share the pointer to its name. */
void history_sort(struct history *history);

#define _cleanup_history_ __attribute__((cleanup(history_done)))
