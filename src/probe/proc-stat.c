#include "probe/proc-stat.h"

#include <errno.h>
#include <string.h>

#include "base/macros.h"
#include "probe/lines.h"

/* include/linux/sched.h */
#define FLAG_FORKED        0x00000040u /* PF_FORKNOEXEC */
#define FLAG_KERNEL_THREAD 0x00200000u /* PF_KTHREAD */

/* The fields after the name, separated by one blank. An error is sticky, so that the parser needs
 * only one check at the end. */
struct fields {
    struct line rest;
    bool failed;
};

static void skip_fields(struct fields *fields, unsigned count)
{
    const char *at = fields->rest.at;

    for (; count; count--) {
        while (at < fields->rest.end && *at != ' ')
            at++;
        if (at == fields->rest.end) {
            fields->failed = true;
            return;
        }
        at++;
    }
    fields->rest.at = at;
}

static uint64_t scan_number(struct fields *fields, uint64_t max)
{
    uint64_t value = 0;

    if (line_scan_uint(&fields->rest, &value) < 0 || value > max)
        fields->failed = true;
    return value;
}

static char scan_state(struct fields *fields)
{
    char state = fields->rest.at < fields->rest.end ? *fields->rest.at : '\0';

    if (!((state >= 'A' && state <= 'Z') || (state >= 'a' && state <= 'z')))
        fields->failed = true;
    skip_fields(fields, 1);
    return state;
}

/* `PID (NAME) `: leaves `ret_rest` at the state. */
static int parse_head(const char *bytes, size_t length, struct proc_stat *stat,
                      struct line *ret_rest)
{
    struct line head = {.at = bytes, .end = bytes + length};
    uint64_t pid;

    if (line_scan_uint(&head, &pid) < 0 || pid > INT32_MAX || head.at == head.end ||
        *head.at != '(')
        return -EBADMSG;

    const char *name = head.at + 1;
    const char *close = memrchr(name, ')', (size_t)(head.end - name));
    if (!close || head.end - close < 2 || close[1] != ' ')
        return -EBADMSG;

    size_t name_length = MIN((size_t)(close - name), sizeof(stat->name) - 1);
    memcpy(stat->name, name, name_length);
    stat->name[name_length] = '\0';
    stat->pid = (pid_t)pid;
    *ret_rest = (struct line){.at = close + 2, .end = head.end};
    return 0;
}

int proc_stat_parse(const char *bytes, size_t length, struct proc_stat *ret)
{
    struct proc_stat stat;
    struct fields fields = {0};

    int r = parse_head(bytes, length, &stat, &fields.rest);
    if (r < 0)
        return r;

    stat.state = scan_state(&fields);
    stat.ppid = (pid_t)scan_number(&fields, INT32_MAX);
    skip_fields(&fields, 4); /* process group to terminal's process group */
    stat.flags = scan_number(&fields, UINT64_MAX);
    stat.faults = scan_number(&fields, INT64_MAX / 2);
    skip_fields(&fields, 1); /* minor faults of reaped children */
    stat.faults += scan_number(&fields, INT64_MAX / 2);
    skip_fields(&fields, 1); /* major faults of reaped children */
    stat.user_ticks = scan_number(&fields, UINT64_MAX);
    stat.system_ticks = scan_number(&fields, UINT64_MAX);
    stat.children_user_ticks = scan_number(&fields, UINT64_MAX);
    stat.children_system_ticks = scan_number(&fields, UINT64_MAX);
    skip_fields(&fields, 2); /* priority, nice */
    stat.threads = (int64_t)scan_number(&fields, INT64_MAX);
    skip_fields(&fields, 1); /* itrealvalue, always 0 */
    stat.start_ticks = scan_number(&fields, UINT64_MAX);
    stat.vsize_bytes = scan_number(&fields, UINT64_MAX);
    skip_fields(&fields, 24); /* rss to start of the heap */
    stat.arg_start = scan_number(&fields, UINT64_MAX);

    /* More fields follow on every kernel; if none does, arg_start may be truncated. */
    if (fields.failed || fields.rest.at == fields.rest.end)
        return -EBADMSG;
    *ret = stat;
    return 0;
}

bool proc_stat_is_forked(const struct proc_stat *stat)
{
    return stat->flags & FLAG_FORKED;
}

bool proc_stat_is_kernel_thread(const struct proc_stat *stat)
{
    return stat->flags & FLAG_KERNEL_THREAD;
}
