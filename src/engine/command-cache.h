/* The command line of each process of a run at the last snapshot or exec, so that events can name
 * processes that are gone. Redacted, as the snapshots and events are. */
#pragma once

#include "base/map.h"
#include "model/tick-box.h"

/* A zero-initialised struct is empty and valid. */
struct command_cache {
    struct arena arena;
    struct map known;    /* pid → command line, as of the last snapshot */
    struct map present;  /* pid → struct process_metric of the snapshot at hand */
    struct map executed; /* pid → its last exec among the events at hand */
    unsigned reads;      /* since the last box */

    /* A process whose first exec was not reported yet, and its program; 0: none. */
    pid_t expected_pid;
    const char *expected_path;
    const char *expected_command; /* NULL: unknown */
};

void command_cache_done(struct command_cache *cache);

/* Notes that `pid` executes `path` with this command line (NULL: unknown), which must outlive the
 * cache, so that its first exec can be named even if the process has ended when the event is read.
 */
void command_cache_expect(struct command_cache *cache, pid_t pid, const char *path,
                          const char *command);
/* Drops the expectation, because the event may be lost. */
void command_cache_drop_expected(struct command_cache *cache);

/* Redacts the command lines with other words (model/redact.h), each in its place: one that grows
 * loses its end. They are replaced at the next snapshot. */
void command_cache_redact(struct command_cache *cache, const struct text_list *words);

/* Sets the command of an exec event: to `reported`; if that is NULL, to the command line in /proc,
 * or the name of a zombie in brackets, which are read up to READS_MAX times between two boxes; if
 * the process is gone and the exec was expected, to the command of the last snapshot, or to the
 * expected command if that is no script, or to the name of its program as `[program]`. */
void command_cache_name_exec(struct command_cache *cache, struct tick_box *box,
                             const char *reported, struct process_event *exec);

/* Sets the commands of the box's events, and remembers the command lines of its snapshot and execs.
 * Unknown commands, and those without memory for them, stay NULL. */
void command_cache_name(struct command_cache *cache, struct tick_box *box);
