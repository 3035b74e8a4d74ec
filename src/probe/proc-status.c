#include "probe/proc-status.h"

#include <errno.h>
#include <signal.h>

#include "model/field.h"
#include "probe/lines.h"

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return -1;
}

/* A signal mask may be wider than 64 bits (MIPS has 128 signals); the low 64 bits are kept. */
static int parse_mask(struct line *line, uint64_t *ret)
{
    uint64_t mask = 0;

    if (line->at == line->end)
        return -EBADMSG;
    for (; line->at < line->end; line->at++) {
        int digit = hex_digit(*line->at);
        if (digit < 0)
            return -EBADMSG;
        mask = mask << 4 | (uint64_t)digit;
    }
    *ret = mask;
    return 0;
}

struct ids {
    bool has_one_uid;
    bool has_one_gid;
};

/* The line has the real, effective, saved and filesystem id; the last follows the effective one. */
static int parse_ids(struct line *line, int64_t *ret, bool *ret_is_one)
{
    int64_t effective, saved;

    if (line_scan_int(line, ret) < 0 || *ret > UINT32_MAX)
        return -EBADMSG;
    *ret_is_one = line_scan_int(line, &effective) == 0 && line_scan_int(line, &saved) == 0 &&
                  effective == *ret && saved == *ret;
    return 0;
}

static int parse_line(struct line line, struct proc_status *status, struct ids *ids)
{
    if (line_skip_key(&line, "Uid:")) {
        return parse_ids(&line, &status->uid, &ids->has_one_uid);
    } else if (line_skip_key(&line, "Gid:")) {
        return parse_ids(&line, &status->gid, &ids->has_one_gid);
    } else if (line_skip_key(&line, "Tgid:")) {
        return line_scan_int(&line, &status->tgid);
    } else if (line_skip_key(&line, "TracerPid:")) {
        return line_scan_int(&line, &status->tracer_pid);
    } else if (line_skip_key(&line, "VmHWM:")) {
        return line_scan_kb(&line, &status->peak_rss_bytes);
    } else if (line_skip_key(&line, "RssShmem:")) {
        return line_scan_kb(&line, &status->shmem_bytes);
    } else if (line_skip_key(&line, "SigIgn:")) {
        uint64_t mask;
        int r = parse_mask(&line, &mask);
        if (r < 0)
            return r;
        status->ignores_sigchld = mask >> (SIGCHLD - 1) & 1;
    }
    return 0;
}

int proc_status_parse(const char *bytes, size_t length, struct proc_status *ret)
{
    struct proc_status status = {.uid = INT_UNKNOWN,
                                 .gid = INT_UNKNOWN,
                                 .tgid = INT_UNKNOWN,
                                 .tracer_pid = INT_UNKNOWN,
                                 .peak_rss_bytes = INT_UNKNOWN,
                                 .shmem_bytes = INT_UNKNOWN};
    struct ids ids = {.has_one_uid = false};
    const char *at = bytes;
    struct line line;

    while (lines_next(&at, bytes + length, &line)) {
        int r = parse_line(line, &status, &ids);
        if (r < 0)
            return r;
    }
    status.has_one_user = ids.has_one_uid && ids.has_one_gid;
    *ret = status;
    return 0;
}
