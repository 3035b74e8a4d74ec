/* The procfs collector: raw readings of all processes, of selected ones, or of a list of pids.
 *
 * It needs no privileges; values that it may not read are unknown. Files stay open between readings
 * while the descriptor budget lasts: reading a kept file costs a third of opening it again, and the
 * kernel returns ESRCH if the pid belongs to a later process. A process that ends while it is read
 * is omitted; that is not an error.
 *
 * The root directory may be a fixture. CPU clocks are used only if it is the proc filesystem of
 * sonde's own pid namespace; otherwise CPU time comes from clock ticks. */
#pragma once

#include <stddef.h>

#include "probe/reading.h"

struct procfs;

enum probe_depth {
    PROBE_SKIP,   /* skip it in all later scans too, unless its parent is not known yet */
    PROBE_CORE,   /* the core fields */
    PROBE_EXTRAS, /* and the expensive ones: I/O, peak RSS, limits */
};

/* Called for each process of a scan; pid, parent, start and tag of `begun` are set. */
typedef enum probe_depth (*probe_depth_fn)(void *context, const struct process_reading *begun);

/* Creates a collector for the proc filesystem at `root`. `descriptor_budget` limits the number of
 * files kept open; 0 keeps none. Returns 0 or a negative errno. */
int procfs_new(const char *root, unsigned descriptor_budget, struct procfs **ret);
void procfs_free(struct procfs *procfs);
void procfs_freep(struct procfs **procfs);

/* Returns whether the root is the proc filesystem of sonde's own pid namespace. */
bool procfs_is_live(const struct procfs *procfs);

/* Returns the open root directory, which the collector owns. */
int procfs_root_fd(const struct procfs *procfs);

/* Returns a budget that leaves room for the caller's own descriptors below RLIMIT_NOFILE. */
unsigned procfs_default_budget(void);

/* Reads every process that `depth` does not skip (NULL: PROBE_CORE for all). Empties `out` first,
 * but reuses its memory. `ret_total` is the number of all processes. Returns 0 or a negative
 * errno. */
int procfs_scan(struct procfs *procfs, probe_depth_fn depth, void *context, struct readings *out,
                size_t *ret_total);

/* Reads only these pids, with extras; omits processes that are gone. */
int procfs_read_pids(struct procfs *procfs, const pid_t *pids, size_t count, struct readings *out);

void readings_done(struct readings *readings);
