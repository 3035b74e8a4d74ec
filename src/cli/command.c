#include "cli/command.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"

int command_misused(const struct command *command, const char *format, ...)
{
    _cleanup_text_ struct text message = {0};
    va_list arguments;

    va_start(arguments, format);
    text_vprintf(&message, format, arguments);
    va_end(arguments);
    log_error("%s: %s (see 'sonde %s --help')", command->name, text_string(&message),
              command->name);
    return command->usage_status ? command->usage_status : EXIT_USAGE;
}

int finish_output(const struct command *command)
{
    /* A reader that ended early (`| head`) is not a failure; a full disk is. */
    if ((fflush(stdout) == 0 && !ferror(stdout)) || errno == EPIPE)
        return 0;
    log_error("%s%scannot write to standard output: %s", command ? command->name : "",
              command ? ": " : "", strerror(errno));
    return 1;
}
