#include "base/log.h"

#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/charset.h"
#include "base/clock.h"
#include "base/fd-io.h"
#include "base/text.h"

/* Below PIPE_BUF (4096), so that a pipe accepts a line as a whole. */
#define LINE_MAX_BYTES 3500

static bool uses_fields;
static atomic_uint dropped_lines; /* since the last line that was written */

void log_use_fields(void)
{
    uses_fields = true;
}

static const char *level_name(enum log_level level)
{
    switch (level) {
    case LOG_LEVEL_ERROR: return "error";
    case LOG_LEVEL_WARNING: return "warning";
    case LOG_LEVEL_INFO: return "info";
    }
    return "error";
}

/* A daemon must not block if the reader of its log stops reading. A pipe that polls as writable
 * accepts PIPE_BUF bytes. */
static void write_or_drop(const char *bytes, size_t length)
{
    struct pollfd log = {.fd = STDERR_FILENO, .events = POLLOUT};
    char lost[64];

    if (poll(&log, 1, 0) <= 0 || !(log.revents & POLLOUT)) {
        atomic_fetch_add(&dropped_lines, 1);
        return;
    }
    unsigned count = atomic_exchange(&dropped_lines, 0);
    if (count) {
        int size = snprintf(lost, sizeof(lost), "level=warning message=\"%u lines lost\"\n", count);
        write(STDERR_FILENO, lost, (size_t)size);
    }
    write(STDERR_FILENO, bytes, length);
}

/* One write per line, so that lines of several threads and processes do not mix. */
static void write_line(struct text *line)
{
    if (uses_fields && line->length > LINE_MAX_BYTES)
        line->bytes[line->length = LINE_MAX_BYTES] = '\0';
    text_append_char(line, '\n');
    if (text_error(line) < 0)
        return;
    if (uses_fields)
        write_or_drop(line->bytes, line->length);
    else
        fd_write_all(STDERR_FILENO, line->bytes, line->length);
}

static void append_visible(struct text *out, const char *text)
{
    if (charset_is_utf8())
        text_append_visible(out, text, strlen(text), SIZE_MAX);
    else
        text_append_visible_ascii(out, text, strlen(text), SIZE_MAX);
}

/* Escapes control characters, and quotes the value unless it is a single word. */
static void append_value(struct text *line, const char *value)
{
    _cleanup_text_ struct text visible = {0};

    append_visible(&visible, value);
    const char *shown = text_string(&visible);
    if (*shown && !strpbrk(shown, " \"=")) {
        text_append_string(line, shown);
        return;
    }
    text_append_char(line, '"');
    for (; *shown; shown++) {
        if (*shown == '"')
            text_append_char(line, '\\');
        text_append_char(line, *shown);
    }
    text_append_char(line, '"');
}

static void begin_fields(struct text *line, enum log_level level, const char *message)
{
    uint64_t now_ns = clock_real_ns();
    time_t seconds = (time_t)(now_ns / NS_PER_SEC);
    struct tm utc;
    char time[32];

    gmtime_r(&seconds, &utc);
    strftime(time, sizeof(time), "%Y-%m-%dT%H:%M:%S", &utc);
    text_printf(line, "time=%s.%03uZ level=%s message=", time,
                (unsigned)(now_ns % NS_PER_SEC / NS_PER_MSEC), level_name(level));
    append_value(line, message);
}

static void begin_line(struct text *line, enum log_level level, const char *message)
{
    if (uses_fields) {
        begin_fields(line, level, message);
        return;
    }
    text_append_string(line, "sonde: ");
    append_visible(line, message);
}

_printf_(2, 0) static void log_line(enum log_level level, const char *format, va_list arguments)
{
    _cleanup_text_ struct text message = {0};
    _cleanup_text_ struct text line = {0};

    text_vprintf(&message, format, arguments);
    begin_line(&line, level, text_string(&message));
    write_line(&line);
}

void log_error(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    log_line(LOG_LEVEL_ERROR, format, arguments);
    va_end(arguments);
}

void log_note(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    log_line(LOG_LEVEL_INFO, format, arguments);
    va_end(arguments);
}

void log_fields(enum log_level level, const char *message, ...)
{
    _cleanup_text_ struct text line = {0};
    va_list pairs;
    const char *key;
    bool is_first = true;

    begin_line(&line, level, message);
    va_start(pairs, message);
    while ((key = va_arg(pairs, const char *))) {
        const char *value = va_arg(pairs, const char *);
        if (!value)
            continue;
        text_append_string(&line, uses_fields || !is_first ? " " : " (");
        text_printf(&line, "%s=", key);
        append_value(&line, value);
        is_first = false;
    }
    va_end(pairs);
    if (!uses_fields && !is_first)
        text_append_char(&line, ')');
    write_line(&line);
}
