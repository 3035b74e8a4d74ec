#include "lib/errors.h"

#include <stdarg.h>
#include <stdio.h>

int error_set(struct sonde_error *error, int r, const char *format, ...)
{
    va_list arguments;

    if (!error)
        return r;
    va_start(arguments, format);
    vsnprintf(error->text, sizeof(error->text), format, arguments);
    va_end(arguments);
    return r;
}
