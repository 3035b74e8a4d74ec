/* Scope: which processes of a snapshot are worth storing and showing. */
#pragma once

#include "config/config.h"
#include "model/snapshot.h"

/* How many of the largest by CPU, and by memory, are kept in scope `jobs`. */
#define SCOPE_LARGEST 20

/* Whether a process is to be kept all the same: it is in an open episode. */
typedef bool (*scope_fn)(void *context, const struct process_metric *process);

/* SCOPE_ALL keeps everything. SCOPE_JOBS keeps job processes, zombies, the 20 with most CPU, the 20
 * with most RSS (of equals, the first) and those that `is_wanted` (NULL: none) names; the order
 * stays. 0 or -ENOMEM, with the list as it was. */
int scope_apply(enum scope scope, struct process_list *processes, scope_fn is_wanted,
                void *context);
