#include "probe/proc-children.h"

#include <errno.h>
#include <limits.h>

#include "base/number.h"

int proc_children_parse(const char *bytes, size_t length, proc_child_fn on_child, void *context)
{
    const char *at = bytes, *end = bytes + length;

    while (at < end) {
        int64_t pid;
        if (number_scan_int(&at, end, &pid) < 0 || pid <= 0 || pid > INT_MAX)
            return -EBADMSG;
        if (at == end)
            return 0;
        if (*at != ' ' && *at != '\n')
            return -EBADMSG;
        at++;
        int r = on_child(context, (pid_t)pid);
        if (r < 0)
            return r;
    }
    return 0;
}
