/* Which command line each process of a run had at the last snapshot, or has executed since: so that
 * an event can name a process that is gone. */
#pragma once

#include "base/map.h"
#include "model/tick-box.h"

/* Zero-initialised is empty and valid. */
struct command_cache {
    struct arena arena;
    struct map known;    /* pid → command line, as of the last snapshot */
    struct map present;  /* pid → struct process_metric of the snapshot at hand */
    struct map executed; /* pid → its last exec among the events at hand */
    unsigned reads;      /* since the last box */

    /* A process whose first exec was not reported yet, and the path that it executes; 0: none. */
    pid_t expected_pid;
    const char *expected_path;
};

void command_cache_done(struct command_cache *cache);

/* Notes that `pid` executes `path`, which must outlive the cache: then its first exec can be named
 * even if the event of that is read when the process has ended. */
void command_cache_expect(struct command_cache *cache, pid_t pid, const char *path);
/* Drops that: the event may be lost. */
void command_cache_distrust(struct command_cache *cache);

/* Names what a process has just executed and may be gone at the next snapshot: by `reported`; if
 * that is NULL, by its command line, which is read up to READS_MAX times between two boxes; if that
 * is gone and the exec is expected, by the last snapshot or by its path as `[program]`. */
void command_cache_name_exec(struct command_cache *cache, struct tick_box *box,
                             const char *reported, struct process_event *exec);

/* Names the processes of the box's events, those that are still there by the box's snapshot, and
 * takes that over. A command line that nobody has seen
 * stays unknown, and so does one that there is no memory for. */
void command_cache_name(struct command_cache *cache, struct tick_box *box);
