/* Helper programs, which sonde starts for its own use (strace, nvidia-smi), with strict limits.
 *
 * A helper runs isolated (see spawn_helper()) and belongs to no job. It gets its stop signal when
 * its deadline passes, when it writes too much, or when sonde dies; if it does not end within the
 * grace period, its whole process group is killed. Every helper is reaped, and the rest of its
 * group is killed when it ends. Needs pidfds (Linux 5.3). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "loop/spawn.h"

/* All helpers of a loop. */
struct helpers;
struct helper;

struct helpers_options {
    /* Report each helper's pid, so that callers can exclude it from jobs. May be NULL. */
    void (*on_start)(void *context, pid_t pid);
    void (*on_end)(void *context, pid_t pid);
    void *context;
};

enum helper_stream {
    HELPER_READ_STDOUT,
    HELPER_READ_STDERR,
};

struct helper_end {
    int wait_status;            /* -1: unknown, because a tracer delays the wait */
    struct spawn_report report; /* `error` != 0: the program was not executed, for this reason */
    bool was_late;              /* it exceeded its deadline or its grace period */
    bool was_cut;               /* it wrote more than `output_max` */
    const char *output;
    size_t length;
};

struct helper_options {
    const char *const *argv;       /* argv[0] from helper_find() */
    const struct spawn_user *user; /* NULL: the user of this process */
    int stop_signal;               /* sent to stop it, and by the kernel when sonde dies */
    uint64_t deadline_ms;          /* from its start; 0: none */
    uint64_t grace_ms;             /* from the stop signal to SIGKILL */
    enum helper_stream reads;
    /* With HELPER_READ_STDERR, a new file for stdout, see spawn_helper(). NULL: /dev/null. */
    const char *stdout_path;
    uint64_t file_max_bytes; /* 0: no limit */
    size_t output_max;       /* bytes of output to keep; the helper is stopped if it writes more */
    /* Called with each chunk of output as it is read. If it is set, no output is kept, and
     * `output_max` does not apply. May be NULL. */
    void (*on_chunk)(void *context, const char *bytes, size_t length);
    /* Called with all output so far, whenever more has been read. May be NULL. */
    void (*on_output)(void *context, const char *output, size_t length);
    /* Called exactly once, as the last callback. The helper may not be used afterwards. */
    void (*on_end)(void *context, const struct helper_end *end);
    void *context;
};

/* Finds the absolute path of a program in the directories of PATH that only root and this user can
 * write. Returns 0 or -ENOENT. */
int helper_find(const char *name, char *into, size_t capacity);

/* Returns 0 or -ENOMEM. */
int helpers_new(uv_loop_t *loop, const struct helpers_options *options, struct helpers **ret);
/* Kills the remaining helpers, without calling their `on_end`, and frees all. NULL is allowed. */
void helpers_close(struct helpers *helpers);

/* Starts a helper, which `helpers` owns. Returns 0 or a negative errno. A failure to execute the
 * program is reported by `on_end`. */
int helper_start(struct helpers *helpers, const struct helper_options *options,
                 struct helper **ret);
pid_t helper_pid(const struct helper *helper);
/* Sets a new deadline, counted from now; 0: none. Has no effect after helper_stop(). */
void helper_set_deadline(struct helper *helper, uint64_t deadline_ms);
/* Stop and restart reading its output. A paused helper blocks when its pipe is full. */
void helper_pause(struct helper *helper);
void helper_resume(struct helper *helper);
/* Sends the stop signal (once), and SIGKILL after `grace_ms`. A later call can only shorten the
 * time to SIGKILL. */
void helper_stop(struct helper *helper, uint64_t grace_ms);

bool helpers_is_empty(const struct helpers *helpers);
bool helpers_have(const struct helpers *helpers, pid_t pid);
/* For reaper_collect(): handles the end of a helper that can be waited for. */
void helpers_reap(struct helpers *helpers, pid_t pid);
