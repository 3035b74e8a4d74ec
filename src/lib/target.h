/* What a monitor looks at: one process, or one with all its descendants.
 *
 * A process alone: its own CPU time. With descendants: the ledger's (sample/ledger.h), in which
 * children count that came and went between two looks. Files stay open from look to look; nothing
 * is allocated but for a process that was not there before. Not for two threads at once. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "lib/look.h"

struct target;

/* 0, -ESRCH (there is no such process), -EXDEV (/proc is not that of our pid namespace),
 * -EOPNOTSUPP (this kernel does not list children) or another negative errno. */
int target_new(pid_t pid, bool with_descendants, struct target **ret);
void target_free(struct target *target);
void target_freep(struct target **target);

/* What is cheap is read each time, the high-water marks of processes that have done much since, and
 * all of it if it is `thorough`. 0, -ESRCH (nobody lives any more; *ret holds the CPU time used and
 * the last peak all the same) or another negative errno. Only the first look fails for want of
 * descriptors (-EMFILE, -ENFILE); later, what cannot be read is as it was, or unknown. */
int target_look(struct target *target, bool thorough, struct look *ret);

/* Resets the high-water marks, as of now. 0 or a negative errno. */
int target_reset_peak(struct target *target);
