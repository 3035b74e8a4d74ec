/* What is told of trouble with the store: once when it begins, once when it ends, with what it has
 * cost. Belongs to the writer's thread, but for store_trouble_silence(). */
#pragma once

#include <stdatomic.h>

#include "base/macros.h"
#include "engine/tick-loss.h"

struct store_trouble {
    void (*on_notice)(void *context, const char *text);
    void *context;
    atomic_bool is_silent;
    int error;     /* that was told of; 0: none, -ETIME: too slow */
    int log_error; /* the same, of the JSONL log */
};

/* In words without a newline. */
void store_trouble_say(struct store_trouble *trouble, const char *format, ...) _printf_(2, 3);
/* Nobody wants to hear of it any more. For any thread. */
void store_trouble_silence(struct store_trouble *trouble);

/* Why ticks are lost then. */
const char *store_trouble_reason(int error);
/* Whether it is to be told of: no worse one has been. */
bool store_trouble_is_news(const struct store_trouble *trouble, int error);
void store_trouble_begin(struct store_trouble *trouble, int error, const char *words);
void store_trouble_end(struct store_trouble *trouble, const struct tick_loss *cost,
                       double interval_seconds);
void store_trouble_tell_cost(struct store_trouble *trouble, const char *before,
                             const struct tick_loss *cost, double interval_seconds,
                             const char *after);

/* After a tick: how the log fares. */
void store_trouble_check_log(struct store_trouble *trouble, const char *path, int error);
