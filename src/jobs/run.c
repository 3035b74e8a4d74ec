#include "jobs/run.h"

#include <errno.h>

bool run_node_is_within(const struct run_node *node, const struct run_node *ancestor)
{
    while (node && node != ancestor)
        node = node->outer;
    return node != NULL;
}

bool run_is_within(const struct run *run, const struct run *ancestor)
{
    while (run && run != ancestor)
        run = run->parent;
    return run != NULL;
}

static struct run_sheet *find_sheet(const struct run *run, int64_t sheet_num)
{
    for (size_t i = 0; i < run->sheets.count; i++)
        if (run->sheets.items[i].sheet_num == sheet_num)
            return &run->sheets.items[i];
    return NULL;
}

const struct run_sheet *run_find_sheet(const struct run *run, int64_t sheet_num)
{
    return find_sheet(run, sheet_num);
}

int run_begin_sheet(struct run *run, int64_t sheet_num, pid_t pid)
{
    const struct run_sheet sheet = {.sheet_num = sheet_num, .pid = pid};
    struct run_sheet *known = find_sheet(run, sheet_num);

    if (known) {
        known->pid = pid ? pid : known->pid;
        return 0;
    }
    if (run->sheets.count >= RUN_SHEETS_MAX)
        return -E2BIG;
    return VEC_PUSH(&run->sheets, sheet);
}

int run_end_sheet(struct run *run, int64_t sheet_num)
{
    struct run_sheet *sheet = find_sheet(run, sheet_num);
    if (!sheet)
        return 0;

    struct run_sheet *last = &run->sheets.items[--run->sheets.count];
    /* Keeps the other steps in the order of their start. */
    for (; sheet < last; sheet++)
        sheet[0] = sheet[1];
    return 1;
}

struct event_owner run_owner(const struct run *run, int64_t sheet_num)
{
    return (struct event_owner){
        .run_id = run->run_id, .job_id = run->job_id, .uid = run->uid, .sheet_num = sheet_num};
}
