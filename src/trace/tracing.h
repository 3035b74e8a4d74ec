/* Tracers: strace processes that are attached to other processes.
 *
 * A tracer covers one process and its later forks; a traced process gets no second tracer. strace
 * runs as the owner of the process, with no more rights than that user. It detaches on SIGINT,
 * which it also gets when sonde dies: the target continues. It reports a summary when it detaches
 * or its target ends. */
#pragma once

#include "jobs/registry.h"
#include "loop/helper.h"
#include "model/job.h"
#include "model/snapshot.h"
#include "model/syscall-profile.h"
#include "model/tick-box.h"
#include "trace/traced-processes.h"

struct tracing;

/* Tracers at once: each slows its target down and is a process itself. Some are reserved for root's
 * processes, and no user may have all the others. */
#define TRACERS_MAX          256
#define TRACERS_FOR_ROOT     32
#define TRACERS_PER_USER_MAX 64
/* Requests that may wait for one tracer. */
#define TRACE_WAITERS_MAX 16
/* A full trace ends at this size. */
#define TRACE_FILE_MAX_BYTES (UINT64_C(1) << 30)
/* How long attaching may take; how long detaching may take before strace is killed; and the latter
 * when sonde stops. */
#define TRACE_ATTACH_MSEC    5000
#define TRACE_DETACH_MSEC    5000
#define TRACE_LAST_WAIT_MSEC 2000

struct tracing_options {
    struct helpers *helpers;
    struct registry *registry;
    /* A tracer has reported the calls of a process. */
    void (*on_traced)(void *context, const struct traced *traced);
    /* A tracer reported after the end of its run; `calls` are all counts of the run. */
    void (*on_late)(void *context, const char *run_id, const struct syscall_profile *calls);
    void *context;
};

/* Returns 0 or -ENOMEM. */
int tracing_new(const struct tracing_options *options, struct tracing **ret);
/* Answers the waiting requests and frees everything; the caller closes the helpers. */
void tracing_free(struct tracing *tracing);

struct trace_request {
    pid_t pid;
    int64_t uid;      /* the required owner; INT_UNKNOWN: any */
    const char *file; /* absolute path of a full trace; NULL: count calls */
};

struct trace_answer {
    int error;          /* 0, or a negative errno with the reason */
    const char *reason; /* no newline; on detaching, also why there are no counts */
    pid_t tracer_pid;
    const struct syscall_profile *calls; /* on detaching: the counts; NULL: none */
    const char *file;                    /* of the full trace; NULL: none */
};

typedef void (*trace_fn)(void *context, const struct trace_answer *answer);

/* Attaches a tracer that counts calls, or one that writes each call to a new file, created with the
 * rights of the owner of the process. Calls `on_answer` once it is attached or has failed, perhaps
 * before this function returns. Succeeds if the calls are already counted. The error is -EACCES if
 * the process belongs to another user. */
void tracing_attach(struct tracing *tracing, const struct trace_request *request,
                    trace_fn on_answer, void *context);
/* Detaches a tracer. Calls `on_answer` once it is detached; the error is -ESRCH if no tracer is
 * attached to that process of that user. */
void tracing_detach(struct tracing *tracing, const struct trace_request *request,
                    trace_fn on_answer, void *context);
/* Cancels the calls of `on_answer` with this context. */
void tracing_cancel(struct tracing *tracing, const void *context);
/* Detaches the tracer of a process of that run, if there is one. */
void tracing_release(struct tracing *tracing, const struct run *run, pid_t pid);

/* Attaches to members that are new since the last call, unless they are traced already. */
void tracing_follow(struct tracing *tracing);
/* Detaches the tracers of a run that is over. `is_counted`: the kernel counted all its calls, so
 * that later reports of tracers are ignored. */
void tracing_end_run(struct tracing *tracing, const struct run *run, bool is_counted);

/* Detaches all tracers, within TRACE_LAST_WAIT_MSEC; no others are attached afterwards. */
void tracing_detach_all(struct tracing *tracing);

size_t tracing_count(const struct tracing *tracing);
/* Writes the pids of the tracers and returns their number. */
size_t tracing_pids(const struct tracing *tracing, pid_t into[static TRACERS_MAX]);

/* Returns the recent counts of a process; NULL if there are none. */
const struct syscall_profile *tracing_calls(const struct tracing *tracing, pid_t pid,
                                            uint64_t start_ticks);
/* Reports the earlier counts of a member that has ended again, for the event of its end. */
void tracing_ended(struct tracing *tracing, const struct member *member);
/* Fills the rows of a snapshot. Returns 0 or -ENOMEM. */
int tracing_fill(struct tracing *tracing, struct snapshot *snapshot);
/* Fills in all counts of a run so far; unknown if there are none. Lists are placed in `arena`.
 * Returns 0 or -ENOMEM. */
int tracing_fill_run(const struct tracing *tracing, const struct run *run, struct arena *arena,
                     struct run_syscalls *ret);

/* Returns the path of strace; NULL if it is not installed. */
const char *tracing_program(struct tracing *tracing);
/* Returns the number of members that tracing_follow() could not trace, and the last reason. */
uint64_t tracing_failures(const struct tracing *tracing, const char **ret_reason);
