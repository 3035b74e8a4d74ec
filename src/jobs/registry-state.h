/* The state of the registry, shared by registry.c (processes) and registry-runs.c (runs). */
#pragma once

#include <sys/queue.h>

#include "base/map.h"
#include "jobs/member-tree.h"
#include "jobs/registry.h"
#include "jobs/run-index.h"

/* The foster parent of a run: see registry_set_foster(). */
struct foster {
    pid_t pid;
    uint64_t start_ticks; /* 0 until it is reported or read */
    bool awaits_fork;     /* its fork event may still come */
    bool is_doubted;      /* a fork event had its pid: it may be a new process */
    struct run_entry *run;
};

struct registry {
    struct map members;                /* pid → struct member_entry */
    TAILQ_HEAD(, member_entry) by_age; /* in the order of joining: parents before children */
    struct run_index runs;
    struct map fosters;  /* pid → struct foster */
    struct map excluded; /* pid → not NULL: see registry_exclude() */
    bool trusts_events;
    uint32_t last_tag;
};

/* Returns the registry's entry that contains the run. */
static inline struct run_entry *entry_of(struct run *run)
{
    return (struct run_entry *)run;
}

/* Ends the membership of a process, which may still live. NULL is allowed. */
void registry_remove_member(struct registry *registry, struct member_entry *entry);

/* Removes a foster parent: its children no longer join the run. NULL is allowed. */
void registry_drop_foster(struct registry *registry, struct foster *foster);
