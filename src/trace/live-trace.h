/* A full trace of one process, as it happens: `sonde top --trace`. In a loop of its own, with no
 * daemon. */
#pragma once

#include <sys/types.h>

#include "trace/trace-target.h"

/* To a file, which is emptied if it is there, or to stdout (NULL). Blocks until the process has
 * ended, a signal such as Ctrl-C asks for the end, or nobody reads what is written; the process
 * lives on. strace is killed if it does not detach. 0 or a negative errno, with words for a person.
 */
int live_trace(pid_t pid, const char *path, char words[static TRACE_WORDS_SIZE]);
