/* Notices about write errors: one when they begin, one when they end, with the loss. Used by the
 * writer's thread, except for write_errors_silence(). */
#pragma once

#include <stdatomic.h>

#include "base/macros.h"
#include "writer/tick-loss.h"

struct write_errors {
    void (*on_notice)(void *context, const char *text);
    void *context;
    atomic_bool is_silent;
    int error;     /* reported; 0: none, -ETIME: too slow */
    int log_error; /* the same for the JSONL log */
};

/* Formats a notice, without a newline. */
void write_errors_notify(struct write_errors *errors, const char *format, ...) _printf_(2, 3);
/* Drops all further notices. For any thread. */
void write_errors_silence(struct write_errors *errors);

/* Returns the reason of a gap for this error. */
const char *write_errors_reason(int error);
/* Returns whether the error must be reported: none, or a lesser one, was. */
bool write_errors_is_new(const struct write_errors *errors, int error);
void write_errors_begin(struct write_errors *errors, int error, const char *message);
void write_errors_end(struct write_errors *errors, const struct tick_loss *loss,
                      double interval_seconds);
void write_errors_report_loss(struct write_errors *errors, const char *before,
                              const struct tick_loss *loss, double interval_seconds,
                              const char *after);

/* After a tick: reports a change of the log's state. */
void write_errors_check_log(struct write_errors *errors, const char *path, int error);
