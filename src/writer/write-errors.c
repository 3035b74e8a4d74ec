#include "writer/write-errors.h"

#include <stdarg.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/human.h"
#include "store/store.h"

void write_errors_say(struct write_errors *trouble, const char *format, ...)
{
    char text[sizeof(struct store_error) + 256];
    va_list arguments;

    if (atomic_load(&trouble->is_silent) || !trouble->on_notice)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    trouble->on_notice(trouble->context, text);
}

void write_errors_silence(struct write_errors *trouble)
{
    atomic_store(&trouble->is_silent, true);
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

bool write_errors_is_news(const struct write_errors *trouble, int error)
{
    /* A disk that got full is more than one that was slow before. */
    return !trouble->error || (trouble->error == -ETIME && error != -ETIME);
}

void write_errors_begin(struct write_errors *trouble, int error, const char *words)
{
    trouble->error = error;
    write_errors_say(trouble, "%s; sampling goes on", words);
}

void write_errors_tell_cost(struct write_errors *trouble, const char *before,
                             const struct tick_loss *cost, double interval_seconds,
                             const char *after)
{
    /* The events of a snapshot that is lost are lost with it: the snapshots stand for both. */
    const char *noun = cost->snapshots ? "snapshot" : "event";
    uint64_t lost = cost->snapshots ? cost->snapshots : cost->events;
    struct human count, seconds;

    write_errors_say(trouble, "%s; %s %s%s (%s) %s not stored%s", before,
                      human_count(&count, lost), noun, lost == 1 ? "" : "s",
                      human_duration(&seconds, tick_loss_seconds(cost, interval_seconds)),
                      lost == 1 ? "was" : "were", after);
}

void write_errors_end(struct write_errors *trouble, const struct tick_loss *cost,
                       double interval_seconds)
{
    trouble->error = 0;
    if (!tick_loss_is_empty(cost))
        write_errors_tell_cost(trouble, "writing again", cost, interval_seconds, "");
    else
        write_errors_say(trouble, "writing again; no snapshot was lost");
}

void write_errors_check_log(struct write_errors *trouble, const char *path, int error)
{
    if (error && !trouble->log_error)
        write_errors_say(trouble, "cannot write to %s: %s; it is tried again at every snapshot",
                          path, strerror(-error));
    if (!error && trouble->log_error)
        write_errors_say(trouble, "%s is written again", path);
    trouble->log_error = error;
}
