/* What a process has forked before it was registered as the first one of a run or of a step: that
 * belongs to it as well. */
#pragma once

#include <sys/types.h>

#include "base/vec.h"
#include "engine/tick-builder.h"
#include "jobs/registry.h"

struct earlier_forks {
    struct registry *registry; /* not its own */
    struct VEC(pid_t) found;
    int error;
};

void earlier_forks_done(struct earlier_forks *forks);

/* Makes all living descendants members that are none yet. 0 or -ENOMEM. */
int earlier_forks_place(struct earlier_forks *forks, int proc_fd, pid_t pid);

/* Tells of those that no event has told of meanwhile. */
void earlier_forks_report(const struct earlier_forks *forks, struct tick_builder *builder);
