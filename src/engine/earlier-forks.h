/* The descendants that a process forked before it was registered as the first one of a run or step;
 * they belong to the run as well. */
#pragma once

#include <sys/types.h>

#include "base/vec.h"
#include "engine/tick-builder.h"
#include "jobs/registry.h"

struct earlier_forks {
    struct registry *registry; /* borrowed */
    struct VEC(pid_t) found;
    int error;
};

void earlier_forks_done(struct earlier_forks *forks);

/* Makes all living descendants of a process members of its run. Returns 0 or -ENOMEM. */
int earlier_forks_place(struct earlier_forks *forks, int proc_fd, pid_t pid);

/* Adds spawn events for those descendants whose forks no event reported in the meantime. */
void earlier_forks_report(const struct earlier_forks *forks, struct tick_builder *builder);
