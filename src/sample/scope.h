/* The scope of a snapshot: which of its processes are stored and shown. It is applied before the
 * snapshot is finished. */
#pragma once

#include "config/config.h"
#include "model/job.h"
#include "model/snapshot.h"

/* How many processes with the most CPU, and with the most memory, scope `jobs` keeps. */
#define SCOPE_LARGEST 20

/* Whether a process is kept anyway, because it is in an open episode. */
typedef bool (*scope_fn)(void *context, const struct process_metric *process);

/* SCOPE_ALL keeps everything. SCOPE_JOBS keeps job processes, zombies, the 20 with the most CPU,
 * the 20 with the most RSS (of equal ones, the first) and those for which `is_wanted` (may be NULL)
 * returns true, in the same order. Returns 0, or -ENOMEM with the list unchanged. */
int scope_apply(enum scope scope, struct process_list *processes, scope_fn is_wanted,
                void *context);

/* Keeps the items of a list that belong to a job (a job_id or a run_id). */
#define SCOPE_KEEP_JOB(list, job)                                                                  \
    do {                                                                                           \
        size_t kept_ = 0;                                                                          \
        for (size_t i_ = 0; i_ < (list)->count; i_++)                                              \
            if (job_is_named(job, (list)->items[i_].job_id, (list)->items[i_].run_id))             \
                (list)->items[kept_++] = (list)->items[i_];                                        \
        (list)->count = kept_;                                                                     \
    } while (0)

/* Removes all jobs but one (a job_id or a run_id) and the processes that do not belong to it. */
void scope_keep_job(const char *job, struct snapshot *snapshot);
