#include "model/waiting-calls.h"

#include <stddef.h>
#include <string.h>

#include "base/macros.h"

static const char *const waiting_calls[] = {
    "wait4",        "waitid",          "futex",           "futex_waitv",  "poll",
    "ppoll",        "select",          "pselect6",        "epoll_wait",   "epoll_pwait",
    "epoll_pwait2", "nanosleep",       "clock_nanosleep", "pause",        "rt_sigsuspend",
    "sigsuspend",   "rt_sigtimedwait", "restart_syscall", "io_getevents", "io_pgetevents",
    "vfork",
};

bool call_is_waiting(const char *name)
{
    /* Compares the first letter first, because an analysis tests a million names. */
    for (size_t i = 0; i < ARRAY_SIZE(waiting_calls); i++)
        if (waiting_calls[i][0] == name[0] && strcmp(waiting_calls[i], name) == 0)
            return true;
    return false;
}
