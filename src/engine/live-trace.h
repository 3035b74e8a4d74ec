/* A full trace of one process, as it happens: `sonde top --trace`. In a loop of its own, with no
 * daemon. */
#pragma once

#include <sys/types.h>

#define LIVE_TRACE_WORDS_SIZE 256

/* Blocks until the process has ended, a signal such as Ctrl-C asks for the end, or nobody reads
 * what is written to `fd`; the process lives on. strace is killed if it does not detach. 0 or a
 * negative errno, with words for a person ("": none). */
int live_trace(pid_t pid, int fd, char words[static LIVE_TRACE_WORDS_SIZE]);
