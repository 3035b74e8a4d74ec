#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fd-io.h"
#include "base/text.h"

_printf_(1, 0) static void log_line(const char *format, va_list arguments)
{
    _cleanup_text_ struct text message = {0};
    _cleanup_text_ struct text line = {0};

    text_vprintf(&message, format, arguments);
    text_append_string(&line, "sonde: ");
    text_append_visible(&line, text_string(&message), message.length, SIZE_MAX);
    text_append_char(&line, '\n');
    /* One write a line, so that lines of several processes do not mix. */
    if (text_error(&line) == 0)
        fd_write_all(STDERR_FILENO, line.bytes, line.length);
}

void log_error(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    log_line(format, arguments);
    va_end(arguments);
}

void log_note(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    log_line(format, arguments);
    va_end(arguments);
}
