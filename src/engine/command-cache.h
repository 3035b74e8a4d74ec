/* The command line of each process of a run at the last snapshot or exec, so that events can name
 * processes that are gone. */
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

    /* A process whose first exec was not reported yet, and its program; 0: none. */
    pid_t expected_pid;
    const char *expected_path;
};

void command_cache_done(struct command_cache *cache);

/* Notes that `pid` executes `path`, which must outlive the cache, so that its first exec can be
 * named even if the process has ended when the event is read. */
void command_cache_expect(struct command_cache *cache, pid_t pid, const char *path);
/* Drops that, because the event may be lost. */
void command_cache_drop_expected(struct command_cache *cache);

/* Names the program of an exec: by `reported`; if that is NULL, by its command line in /proc, read
 * up to READS_MAX times between two boxes; if the process is gone and the exec was expected, by the
 * last snapshot or by its path as `[program]`. */
void command_cache_name_exec(struct command_cache *cache, struct tick_box *box,
                             const char *reported, struct process_event *exec);

/* Names the processes of the box's events, and remembers the command lines of its snapshot and
 * execs. Unknown ones, and those without memory for them, stay NULL. */
void command_cache_name(struct command_cache *cache, struct tick_box *box);
