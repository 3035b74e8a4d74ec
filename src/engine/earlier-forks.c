#include "engine/earlier-forks.h"

#include <errno.h>

#include "base/clock.h"
#include "probe/process-facts.h"

void earlier_forks_done(struct earlier_forks *forks)
{
    VEC_DONE(&forks->found);
}

static void place_child(void *context, pid_t pid, pid_t ppid)
{
    struct earlier_forks *forks = context;

    if (registry_find(forks->registry, pid))
        return;
    if (registry_fork(forks->registry, ppid, pid) < 0 || VEC_PUSH(&forks->found, pid) < 0)
        forks->error = -ENOMEM;
    struct member *member = registry_find(forks->registry, pid);
    if (member)
        member->was_found = true; /* the event of its fork may still come */
}

int earlier_forks_place(struct earlier_forks *forks, int proc_fd, pid_t pid)
{
    process_descendants_read(proc_fd, pid, place_child, forks);
    return forks->error;
}

void earlier_forks_report(const struct earlier_forks *forks, struct tick_builder *builder)
{
    for (size_t i = 0; i < forks->found.count; i++) {
        const struct member *member = registry_find(forks->registry, forks->found.items[i]);
        if (member && member->was_found)
            tick_builder_add_spawn(builder, member_owner(member), member->pid, member->ppid,
                                   ns_to_sec(clock_real_ns()));
    }
}
