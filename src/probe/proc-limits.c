#include "probe/proc-limits.h"

#include <errno.h>

#include "probe/lines.h"

int proc_limits_parse_fds(const char *bytes, size_t length, int64_t *ret_fd_limit)
{
    const char *at = bytes;
    struct line line;

    while (lines_next(&at, bytes + length, &line)) {
        if (!line_skip_key(&line, "Max open files "))
            continue;
        if (line_skip_key(&line, "unlimited ")) {
            *ret_fd_limit = INT64_MAX;
            return 0;
        }
        return line_scan_int(&line, ret_fd_limit);
    }
    return -EBADMSG;
}
