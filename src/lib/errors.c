#include "lib/errors.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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

int error_explain(struct sonde_error *error, int r, pid_t pid)
{
    switch (r) {
    case -ESRCH: return error_set(error, r, "pid %d: no such process", (int)pid);
    case -EXDEV:
        return error_set(error, r,
                         "/proc is not mounted, or shows another pid namespace; mount it");
    case -EOPNOTSUPP:
        return error_set(error, r, "this kernel does not list children (CONFIG_PROC_CHILDREN)");
    case -EMFILE:
        return error_set(error, r,
                         "pid %d: cannot be read, because this program has too many files open; "
                         "close some, or raise the limit (ulimit -n)",
                         (int)pid);
    case -ENFILE:
        return error_set(error, r,
                         "pid %d: cannot be read, because the system has too many files open; "
                         "raise the limit (sysctl fs.file-max)",
                         (int)pid);
    case -EACCES:
    case -EPERM: return error_set(error, r, "pid %d: permission denied", (int)pid);
    case -EAGAIN: return error_set(error, r, "too many threads; raise the limit (ulimit -u)");
    case -ENOMEM: return error_set(error, r, "out of memory");
    default: return error_set(error, r, "pid %d: %s", (int)pid, strerrordesc_np(-r));
    }
}
