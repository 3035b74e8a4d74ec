/* Finished runs, each in a few bytes, so that a hundred thousand of them fit: what correlation
 * looks at. Runs come one by one and are forgotten by whoever told of them. */
#pragma once

#include <stdbool.h>

#include "base/arena.h"
#include "base/vec.h"
#include "learn/numbers.h"
#include "model/run-digest.h"

/* Calls that can have more than 35 % of the time each. */
#define RUN_CALLS_MAX 2
/* The kernel has some 460 system calls; what is more was never one. */
#define CALL_NAMES_MAX 1024
/* sonde knows eight types of anomalies. */
#define ANOMALY_NAMES_MAX 32

struct past_run {
    double memory_mb;
    double cpu_seconds;
    double duration_seconds;
    uint32_t anomalies;            /* a bit each, by number of its name */
    uint16_t calls[RUN_CALLS_MAX]; /* by number of their names, from 1; 0: none */
    uint8_t call_source;           /* enum syscall_source */
    bool has_calls;                /* whether its system calls are known at all */
    bool has_failed;
};

struct name_list VEC(const char *);

struct history {
    const struct learn_numbers *numbers;
    struct VEC(struct past_run) runs; /* with a known outcome */
    size_t failures;
    size_t without_outcome;
    struct name_list calls;
    struct name_list anomalies;
    struct arena arena; /* holds the names */
};

void history_init(struct history *history, const struct learn_numbers *numbers);
void history_done(struct history *history);

/* A run that has ended; of those that go on, or were lost, nothing is learned. 0 or -ENOMEM. */
int history_add(struct history *history, const struct run_digest *run);

#define _cleanup_history_ __attribute__((cleanup(history_done)))
