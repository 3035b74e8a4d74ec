/* Which failed child, if any, is the reason for the failure of a process. Pure.
 *
 * A child is the reason only if this is proven, as far as events can prove it. It is proven if the
 * child ended last, the process started no other after it and ended at once, and
 *
 * - the process is a shell with the same status (or 128 + the signal of the child), or another
 *   program with the same status of 2 or more. The status may be a coincidence if it is 1 and the
 *   child may have failed as an answer (`grep`), or if the text of `sh -c` or `python3 -c` sets it
 *   itself (`ls x; exit 2`);
 * - or the child crashed, or another process killed it, and the process is a shell with the status
 *   1 (`./work || exit 1`);
 * - or the text of the script shows it: `./work || exit 3`, check=True;
 * - or the process killed itself by the same signal, as shells do.
 *
 * More is known about some programs (program-kind.h):
 *
 * - A program that runs others has a status of its own for their failures (make 2, cc 1, xargs
 *   123). The reason is the first child whose failure leads to this status. A program that keeps
 *   going (make -k, xargs) may have started others after it. An answer is not proven to be the
 *   reason of the failure of a make: it may have been a probe (`$(shell grep x config)`).
 * - A wrapper (env, sudo, npm) ends with the status of its last child, also if that is 1.
 * - The status of GNU parallel is the number of its failed jobs. The reason is the first of them.
 *   The failures of the programs that it starts before its jobs do not count.
 * - pytest and others run programs that fail on purpose: their children are no reason.
 *
 * A shell with an equal status of 3 to 125, or the 2 of a make, passes it on: then the child is
 * also the reason if the shell did more after it (`make; s=$?; rm -r tmp; exit $s`). Several
 * programs may end with 126, 127, 255 or 128 + a signal for different reasons.
 *
 * What is not proven failed on the way: it is reported beside the cause, if the process started no
 * other after it and ended at once, or if it has the same status of 2 or more. A child that crashed
 * below another program than a shell belongs to these: the program may have expected it. An answer
 * with another status than that of the process is reported only if the process runs others. A
 * process that starts another one after a failure has handled it, and a process that works on has
 * another reason: other failures are not reported. */
#pragma once

#include <stddef.h>

#include "model/event.h"

struct failed_child {
    const struct process_event *end;
    uint64_t later_failures; /* number of children of the process that failed after this one */
    bool is_followed;        /* the process started another child after this failure */
};

/* A process that has ended, and its failed children in the order of their ends. */
struct failed_parent {
    const struct process_event *end;
    const struct failed_child *children;
    size_t count;
    double child_ended; /* when its last child ended; unknown: it had none */
    bool keeps_going;   /* a make above it runs with -k */
};

struct failure_reason {
    size_t at; /* index of the child; the count: there is none */
    bool is_proven;
};

struct failure_reason failure_reason_find(const struct failed_parent *parent);
