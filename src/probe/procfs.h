/* The procfs collector: raw readings of all processes, of those that are chosen, or of a list.
 *
 * Any user may run it; what it may not read is unknown. Files stay open between readings while the
 * descriptor budget lasts (a kept file costs a third of opening it anew, and can never be confused
 * with a later process of the same pid: the kernel answers ESRCH). A process that vanishes while it
 * is read is normal and simply not there.
 *
 * The root directory may be a fixture. Only where it is the proc filesystem of sonde's own pid
 * namespace are CPU clocks used; elsewhere CPU time comes from ticks. */
#pragma once

#include <stddef.h>

#include "probe/reading.h"

struct procfs;

enum probe_depth {
    PROBE_SKIP,   /* not wanted, and not asked about again unless its parent was not known yet */
    PROBE_CORE,   /* the core fields */
    PROBE_EXTRAS, /* and the costed ones: io, high-water mark, limits */
};

/* Asked for each process of a scan, of which pid, parent, start and tag are known by then. */
typedef enum probe_depth (*probe_depth_fn)(void *context, const struct process_reading *begun);

/* `descriptor_budget` caps the files kept open; 0 keeps none. 0 or a negative errno. */
int procfs_new(const char *root, unsigned descriptor_budget, struct procfs **ret);
void procfs_free(struct procfs *procfs);
void procfs_freep(struct procfs **procfs);

/* Whether the root is the proc filesystem of sonde's own pid namespace. */
bool procfs_is_live(const struct procfs *procfs);

/* A budget that leaves room for the caller's own descriptors under its RLIMIT_NOFILE. */
unsigned procfs_default_budget(void);

/* Reads every process for which `depth` (NULL: PROBE_CORE for all) says so. `out` is emptied first
 * and keeps its memory from reading to reading. `ret_total` counts all processes there are.
 * 0 or a negative errno. */
int procfs_scan(struct procfs *procfs, probe_depth_fn depth, void *context, struct readings *out,
                size_t *ret_total);

/* Reads just these, with extras; those that are gone are left out. */
int procfs_read_pids(struct procfs *procfs, const pid_t *pids, size_t count, struct readings *out);

void readings_done(struct readings *readings);
