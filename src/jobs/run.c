#include "jobs/run.h"

#include <sys/wait.h>

void run_node_count_end(struct run_node *node, int wait_status)
{
    for (; node; node = node->outer) {
        node->failed += WIFEXITED(wait_status) && WEXITSTATUS(wait_status) != 0;
        node->killed += WIFSIGNALED(wait_status);
    }
}

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

const struct run *run_outermost(const struct run *run)
{
    while (run->parent)
        run = run->parent;
    return run;
}

struct run_sheet *run_find_sheet(const struct run *run, int64_t sheet_num)
{
    for (size_t i = run->sheets.count; i-- > 0;)
        if (run->sheets.items[i]->is_active && run->sheets.items[i]->sheet_num == sheet_num)
            return run->sheets.items[i];
    return NULL;
}

struct event_owner run_owner(const struct run *run, int64_t sheet_num)
{
    return (struct event_owner){
        .run_id = run->run_id, .job_id = run->job_id, .uid = run->uid, .sheet_num = sheet_num};
}
