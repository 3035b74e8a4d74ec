#include "writer/write-errors.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/human.h"
#include "store/store.h"

void write_errors_notify(struct write_errors *errors, const char *format, ...)
{
    char text[sizeof(struct store_error) + 256];
    va_list arguments;

    if (atomic_load(&errors->is_silent) || !errors->on_notice)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    errors->on_notice(errors->context, text);
}

void write_errors_silence(struct write_errors *errors)
{
    atomic_store(&errors->is_silent, true);
}

const char *write_errors_reason(int error)
{
    switch (error) {
    case -ENOSPC: return "the disk was full";
    case -EBUSY: return "another process held the database";
    case -ETIME: return "the disk was too slow";
    default: return "the database could not be written";
    }
}

bool write_errors_is_new(const struct write_errors *errors, int error)
{
    /* A full disk is worse than a slow one. */
    return !errors->error || (errors->error == -ETIME && error != -ETIME);
}

void write_errors_begin(struct write_errors *errors, int error, const char *message)
{
    errors->error = error;
    write_errors_notify(errors, "%s; sampling continues", message);
}

void write_errors_report_loss(struct write_errors *errors, const char *before,
                              const struct tick_loss *loss, double interval_seconds,
                              const char *after)
{
    /* The events of a lost snapshot are lost with it: the number of snapshots stands for both. */
    const char *noun = loss->snapshots ? "snapshot" : "event";
    uint64_t lost = loss->snapshots ? loss->snapshots : loss->events;
    struct human count, seconds;

    write_errors_notify(errors, "%s; %s %s%s (%s) %s not stored%s", before,
                        human_count(&count, lost), noun, lost == 1 ? "" : "s",
                        human_duration(&seconds, tick_loss_seconds(loss, interval_seconds)),
                        lost == 1 ? "was" : "were", after);
}

void write_errors_end(struct write_errors *errors, const struct tick_loss *loss,
                      double interval_seconds)
{
    errors->error = 0;
    if (!tick_loss_is_empty(loss))
        write_errors_report_loss(errors, "writing again", loss, interval_seconds, "");
    else
        write_errors_notify(errors, "writing again; no snapshot was lost");
}

void write_errors_check_log(struct write_errors *errors, const char *path, int error)
{
    if (error && !errors->log_error)
        write_errors_notify(errors, "cannot write to %s: %s; will retry at every snapshot", path,
                            strerror(-error));
    if (!error && errors->log_error)
        write_errors_notify(errors, "writing to %s again", path);
    errors->log_error = error;
}
