#include "probe/cgroup-files.h"

#include <errno.h>

#include "model/field.h"
#include "probe/lines.h"

#define NO_LIMIT_BYTES (UINT64_C(1) << 62)

int cgroup_number_parse(const char *bytes, size_t length, int64_t *ret)
{
    struct line line;
    uint64_t value = NO_LIMIT_BYTES;

    if (lines_first(bytes, length, &line) < 0)
        return -EBADMSG;
    if (!line_skip_key(&line, "max") && !line_skip_key(&line, "-1") &&
        line_scan_uint(&line, &value) < 0)
        return -EBADMSG;
    if (line.at < line.end)
        return -EBADMSG;
    *ret = value < NO_LIMIT_BYTES ? (int64_t)value : INT_UNKNOWN;
    return 0;
}

int cgroup_cpu_max_parse(const char *bytes, size_t length, double *ret_cpu_count)
{
    struct line line;
    int64_t quota_us = 0, period_us;

    if (lines_first(bytes, length, &line) < 0)
        return -EBADMSG;
    if (!line_skip_key(&line, "max ") && (line_scan_int(&line, &quota_us) < 0 || quota_us == 0))
        return -EBADMSG;
    if (line_scan_int(&line, &period_us) < 0 || period_us == 0)
        return -EBADMSG;
    *ret_cpu_count = quota_us ? (double)quota_us / (double)period_us : REAL_UNKNOWN;
    return 0;
}

int cgroup_memory_stat_parse(const char *bytes, size_t length, int64_t *ret_inactive_file_bytes)
{
    int64_t own = INT_UNKNOWN, total = INT_UNKNOWN;
    const char *at = bytes;
    struct line line;

    while (lines_next(&at, bytes + length, &line)) {
        int r = 0;
        if (line_skip_key(&line, "inactive_file "))
            r = line_scan_int(&line, &own);
        else if (line_skip_key(&line, "total_inactive_file "))
            r = line_scan_int(&line, &total);
        if (r < 0)
            return r;
    }
    /* Version 1 has both lines, and only the total includes child cgroups. Version 2 has one. */
    *ret_inactive_file_bytes = int_is_known(total) ? total : own;
    return 0;
}
