#include "probe/sys-files.h"

#include <errno.h>

#include "base/macros.h"
#include "probe/lines.h"

int meminfo_parse(const char *bytes, size_t length, struct meminfo *ret)
{
    struct meminfo meminfo = {.total_bytes = INT_UNKNOWN, .available_bytes = INT_UNKNOWN};
    const char *at = bytes;
    struct line line;

    while (lines_next(&at, bytes + length, &line)) {
        int r = 0;
        if (line_skip_key(&line, "MemTotal:"))
            r = line_scan_kb(&line, &meminfo.total_bytes);
        else if (line_skip_key(&line, "MemAvailable:"))
            r = line_scan_kb(&line, &meminfo.available_bytes);
        if (r < 0)
            return r;
    }
    *ret = meminfo;
    return 0;
}

int vmstat_parse_oom_kills(const char *bytes, size_t length, int64_t *ret)
{
    const char *at = bytes;
    int64_t kills = INT_UNKNOWN;
    struct line line;

    while (!int_is_known(kills) && lines_next(&at, bytes + length, &line))
        if (line_skip_key(&line, "oom_kill ") && line_scan_int(&line, &kills) < 0)
            return -EBADMSG;
    *ret = kills;
    return 0;
}

int vmstat_parse_huge_pages(const char *bytes, size_t length, int64_t *ret)
{
    const char *at = bytes;
    int64_t sum = 0, count;
    struct line line;

    while (lines_next(&at, bytes + length, &line)) {
        if (!line_skip_key(&line, "thp_fault_alloc ") &&
            !line_skip_key(&line, "thp_collapse_alloc "))
            continue;
        if (line_scan_int(&line, &count) < 0 || __builtin_add_overflow(sum, count, &sum))
            return -EBADMSG;
    }
    *ret = sum;
    return 0;
}

int loadavg_parse(const char *bytes, size_t length, struct loadavg *ret)
{
    struct loadavg load;
    struct line line;

    if (lines_first(bytes, length, &line) < 0 || line_scan_real(&line, &load.avg_1) < 0 ||
        line_scan_real(&line, &load.avg_5) < 0 || line_scan_real(&line, &load.avg_15) < 0)
        return -EBADMSG;
    *ret = load;
    return 0;
}

int cpu_ticks_parse(const char *bytes, size_t length, struct cpu_ticks *ret)
{
    struct cpu_ticks ticks = {0};
    uint64_t *const columns[] = {
        &ticks.busy /* user */,    &ticks.busy /* nice */,
        &ticks.busy /* system */,  &ticks.idle /* idle */,
        &ticks.idle /* iowait */,  &ticks.busy /* irq */,
        &ticks.busy /* softirq */, &ticks.stolen,
    };
    const size_t required = 4; /* the others came with Linux 2.6 */
    struct line line;

    if (lines_first(bytes, length, &line) < 0 || !line_skip_key(&line, "cpu "))
        return -EBADMSG;
    for (size_t i = 0; i < ARRAY_SIZE(columns); i++) {
        uint64_t value;
        if (line.at == line.end && i >= required)
            break;
        if (line_scan_uint(&line, &value) < 0 ||
            __builtin_add_overflow(*columns[i], value, columns[i]))
            return -EBADMSG;
    }
    *ret = ticks;
    return 0;
}

int psi_parse(const char *bytes, size_t length, struct psi_line *ret)
{
    struct psi_line psi = {.some_avg10 = REAL_UNKNOWN, .full_avg10 = REAL_UNKNOWN};
    const char *at = bytes;
    struct line line;

    while (lines_next(&at, bytes + length, &line)) {
        int r = 0;
        if (line_skip_key(&line, "some avg10="))
            r = line_scan_real(&line, &psi.some_avg10);
        else if (line_skip_key(&line, "full avg10="))
            r = line_scan_real(&line, &psi.full_avg10);
        if (r < 0)
            return r;
    }
    *ret = psi;
    return 0;
}
