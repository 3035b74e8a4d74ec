/* The target of a monitor: one process, or one with all its descendants.
 *
 * For a single process, CPU time is its own. With descendants it comes from the ledger
 * (sample/ledger.h), which includes children that lived only between two readings. Files stay open;
 * memory is allocated only for new processes. Not safe for concurrent use. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "lib/target-reading.h"

struct target;

/* Creates the target of a process, which the caller frees; does not read it yet. Returns 0, -EXDEV
 * (/proc is not that of this pid namespace), -ENOMEM or another negative errno. */
int target_new(pid_t pid, bool with_descendants, struct target **ret);
void target_free(struct target *target);
void target_freep(struct target **target);

/* Reads the target. Cheap values are read every time, the peak RSS of a process only if it has used
 * much CPU time since; `thorough`: everything is read. Returns 0, -ESRCH (no process lives; *ret
 * still has the CPU time and the last peak), -EOPNOTSUPP (this kernel does not list children) or
 * another negative errno. Only the first reading fails for lack of descriptors (-EMFILE, -ENFILE);
 * later, values that cannot be read keep their last value or are unknown. */
int target_read(struct target *target, bool thorough, struct target_reading *ret);

/* Resets the kernel's peak RSS of all processes of the target. Returns 0 or a negative errno. */
int target_reset_peak(struct target *target);
