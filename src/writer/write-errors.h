/* Formats the notices about write errors: one when they begin, one when they end, with the loss. It
 * handles no errors: writer-thread.c retries, and frees room on a full disk. Used by the writer's
 * thread, except for write_errors_silence(). */
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

/* Returns the reason that a gap has for this error. */
const char *write_errors_reason(int error);
/* Returns whether the error must be reported, because no error, or only a slow disk, was. */
bool write_errors_is_new(const struct write_errors *errors, int error);
/* Reports that errors have begun. */
void write_errors_begin(struct write_errors *errors, int error, const char *message);
/* Reports that errors have ended, and the loss. */
void write_errors_end(struct write_errors *errors, const struct tick_loss *loss,
                      double interval_seconds);
/* Reports a loss, with `before` and `after` around it. */
void write_errors_report_loss(struct write_errors *errors, const char *before,
                              const struct tick_loss *loss, double interval_seconds,
                              const char *after);

/* Reports that writing to the JSONL log has failed (`error`) or works again (0), if that is new. */
void write_errors_check_log(struct write_errors *errors, const char *path, int error);
