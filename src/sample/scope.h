/* Scope: which processes of a snapshot are worth storing and showing. */
#pragma once

#include "model/config.h"
#include "model/snapshot.h"

/* How many of the largest by CPU, and by memory, are kept in scope `jobs`. */
#define SCOPE_LARGEST 20

/* SCOPE_ALL keeps everything. SCOPE_JOBS keeps job processes, zombies, the 20 with most CPU and the
 * 20 with most RSS; the order stays. 0 or -ENOMEM, with the list as it was. */
int scope_apply(enum scope scope, struct process_list *processes);
