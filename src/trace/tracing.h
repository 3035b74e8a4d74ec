/* Tracers: strace, attached to processes for as long as somebody wants to know what they call.
 *
 * A tracer looks at one process and at all that this forks from then on; a process that one looks
 * at already gets no second one. It runs as the user whose process it is, and can do no more to it
 * than that user could; it is asked to detach with SIGINT, and so it is when sonde dies: its target
 * lives on. A summary comes when it detaches, or when its target has ended. */
#pragma once

#include "jobs/registry.h"
#include "loop/helper.h"
#include "model/job.h"
#include "model/snapshot.h"
#include "model/syscall-profile.h"
#include "model/tick-box.h"
#include "trace/traced-processes.h"

struct tracing;

/* Tracers at once: each slows down what it looks at, and is a process itself. Some places are kept
 * for root's processes, and nobody's may take all the others. */
#define TRACERS_MAX          256
#define TRACERS_FOR_ROOT     32
#define TRACERS_PER_USER_MAX 64
/* Who may wait for one of them. */
#define TRACE_WAITERS_MAX 16
/* A full trace is cut off there. */
#define TRACE_FILE_MAX_BYTES (UINT64_C(1) << 30)
/* How long attaching may take; how long a tracer that is to detach may, before it is killed; and
 * the same when sonde stops. */
#define TRACE_ATTACH_MSEC    5000
#define TRACE_DETACH_MSEC    5000
#define TRACE_LAST_WAIT_MSEC 2000

struct tracing_options {
    struct helpers *helpers;
    struct registry *registry;
    void (*on_traced)(void *context, const struct traced *traced);
    /* Of a run that was over before a tracer of it had told, and whose figures are told already:
     * all that tracers know of it by now. */
    void (*on_late)(void *context, const char *run_id, const struct syscall_profile *calls);
    void *context;
};

/* 0 or -ENOMEM. */
int tracing_new(const struct tracing_options *options, struct tracing **ret);
/* Answers whoever waits, and forgets all: the helpers are closed by whoever has them. */
void tracing_free(struct tracing *tracing);

struct trace_request {
    pid_t pid;
    int64_t uid;      /* whose the process must be; INT_UNKNOWN: anybody's */
    const char *file; /* an absolute path, for a full trace; NULL: calls are counted */
};

struct trace_answer {
    int error;         /* 0, or a negative errno, with words that name the thing and the cause */
    const char *words; /* no newline; on detaching also without an error: why nothing was told */
    pid_t tracer_pid;
    const struct syscall_profile *calls; /* on detaching: what was counted; NULL: nothing */
    const char *file;                    /* where the full trace is; NULL: there is none */
};

typedef void (*trace_fn)(void *context, const struct trace_answer *answer);

/* Attaches a tracer, which counts, or writes each call to a new file, made by the rights of the
 * process's user. Answers once it has, or cannot; perhaps before it returns. A process whose calls
 * are counted already is fine. -EACCES: it is not that user's. */
void tracing_attach(struct tracing *tracing, const struct trace_request *request,
                    trace_fn on_answer, void *context);
/* Answers once it is detached: with -ESRCH if nothing of that user's was attached to that very
 * process. */
void tracing_detach(struct tracing *tracing, const struct trace_request *request,
                    trace_fn on_answer, void *context);
/* Nobody waits for that answer any more. */
void tracing_forget(struct tracing *tracing, const void *context);
/* The tracer of a process of that run, if there is one, is not needed any longer. */
void tracing_release(struct tracing *tracing, const struct run *run, pid_t pid);

/* Attaches to members that are new since the last call, unless they are traced by then. */
void tracing_follow(struct tracing *tracing);
/* The run is over: its tracers detach. `is_counted`: others have counted its calls, every one, and
 * what tracers still tell of it is not of interest. */
void tracing_end_run(struct tracing *tracing, const struct run *run, bool is_counted);

/* Asks all to detach, within TRACE_LAST_WAIT_MSEC; no others are attached from then on. */
void tracing_detach_all(struct tracing *tracing);

size_t tracing_count(const struct tracing *tracing);
/* Writes their pids, TRACERS_MAX at most; how many there are. */
size_t tracing_pids(const struct tracing *tracing, pid_t into[static TRACERS_MAX]);

/* What tracers have told of a process that lives, if that very one; NULL: nothing, or not lately.
 */
const struct syscall_profile *tracing_calls(const struct tracing *tracing, pid_t pid,
                                            uint64_t start_ticks);
/* A member has ended: what was told of it before is told again, with its end. */
void tracing_ended(struct tracing *tracing, const struct member *member);
/* Enters what is known of processes into the rows of a snapshot. 0 or -ENOMEM. */
int tracing_fill(struct tracing *tracing, struct snapshot *snapshot);
/* All that tracers have told of a run so far; lists are placed in `arena`. *ret is all unknown if
 * there is nothing. 0 or -ENOMEM. */
int tracing_fill_run(const struct tracing *tracing, const struct run *run, struct arena *arena,
                     struct run_syscalls *ret);

/* Where strace is; NULL if it is not there. */
const char *tracing_program(struct tracing *tracing);
/* How many could not be traced, of those that tracing_follow() has tried, and the last reason. */
uint64_t tracing_failures(const struct tracing *tracing, const char **ret_words);
