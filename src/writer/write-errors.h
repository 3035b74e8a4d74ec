/* What is told of trouble with the store: once when it begins, once when it ends, with what it has
 * cost. Belongs to the writer's thread, but for write_errors_silence(). */
#pragma once

#include <stdatomic.h>

#include "base/macros.h"
#include "writer/tick-loss.h"

struct write_errors {
    void (*on_notice)(void *context, const char *text);
    void *context;
    atomic_bool is_silent;
    int error;     /* that was told of; 0: none, -ETIME: too slow */
    int log_error; /* the same, of the JSONL log */
};

/* In words without a newline. */
void write_errors_say(struct write_errors *trouble, const char *format, ...) _printf_(2, 3);
/* Nobody wants to hear of it any more. For any thread. */
void write_errors_silence(struct write_errors *trouble);

/* Why ticks are lost then. */
const char *write_errors_reason(int error);
/* Whether it is to be told of: no worse one has been. */
bool write_errors_is_news(const struct write_errors *trouble, int error);
void write_errors_begin(struct write_errors *trouble, int error, const char *words);
void write_errors_end(struct write_errors *trouble, const struct tick_loss *cost,
                       double interval_seconds);
void write_errors_tell_cost(struct write_errors *trouble, const char *before,
                             const struct tick_loss *cost, double interval_seconds,
                             const char *after);

/* After a tick: how the log fares. */
void write_errors_check_log(struct write_errors *trouble, const char *path, int error);
