/* Helper programs: what sonde starts for its own use (strace, nvidia-smi), kept so that they cannot
 * hurt.
 *
 * Each is found once, by its absolute path; runs apart (see spawn_helper()); is asked to end when
 * its time is up or when it says too much, and killed with its whole group if it does not; is
 * always reaped, and what it left of its group is killed; is asked to end when sonde dies. Helpers
 * belong to no job. Needs pidfds (Linux 5.3). */
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
    /* So that they are told apart from the processes of jobs. May be NULL. */
    void (*on_start)(void *context, pid_t pid);
    void (*on_end)(void *context, pid_t pid);
    void *context;
};

enum helper_stream {
    HELPER_READ_STDOUT,
    HELPER_READ_STDERR,
};

struct helper_end {
    int wait_status;            /* -1: somebody who traces it keeps that from us */
    struct spawn_report report; /* `error` is not 0: it was never executed, and why */
    bool was_late;              /* it had to be asked, or forced, to end */
    bool was_cut;               /* it said more than it was allowed to */
    const char *output;
    size_t length;
};

struct helper_options {
    const char *const *argv;       /* argv[0] from helper_find() */
    const struct spawn_user *user; /* NULL: ours */
    int stop_signal;               /* how it is asked to end, and told that sonde has died */
    uint64_t deadline_ms;          /* from its start; 0: none */
    uint64_t grace_ms;             /* from being asked to end until it is killed */
    enum helper_stream reads;
    /* With HELPER_READ_STDERR, where the other goes: a new file, see spawn_helper(). NULL:
     * nowhere. */
    const char *stdout_path;
    uint64_t file_max_bytes; /* 0: as large as it likes */
    size_t output_max;       /* bytes that are kept; more than that ends it */
    /* Each piece as it comes: then none is kept, and there may be any number. May be NULL. */
    void (*on_piece)(void *context, const char *bytes, size_t length);
    /* With each piece that has come, all that has been said so far. May be NULL. */
    void (*on_output)(void *context, const char *output, size_t length);
    /* Once, and the last that is heard of it. */
    void (*on_end)(void *context, const struct helper_end *end);
    void *context;
};

/* The absolute path of a program: in the directories of PATH that nobody but root and this user can
 * write. -ENOENT if there is none. */
int helper_find(const char *name, char *into, size_t capacity);

/* 0 or -ENOMEM. */
int helpers_new(uv_loop_t *loop, const struct helpers_options *options, struct helpers **ret);
/* Kills what is left, without a word to those who started it. */
void helpers_close(struct helpers *helpers);

/* That it could not be executed is told by its end. 0 or a negative errno. */
int helper_start(struct helpers *helpers, const struct helper_options *options,
                 struct helper **ret);
pid_t helper_pid(const struct helper *helper);
/* Its time from now on; 0: as much as it takes. */
void helper_set_deadline(struct helper *helper, uint64_t deadline_ms);
/* What it says is not listened to for a while; it waits when its pipe is full. */
void helper_pause(struct helper *helper);
void helper_resume(struct helper *helper);
/* Asks it to end, and kills it if that takes longer than `grace_ms` from when it was first asked.
 */
void helper_stop(struct helper *helper, uint64_t grace_ms);

bool helpers_are_none(const struct helpers *helpers);
bool helpers_have(const struct helpers *helpers, pid_t pid);
/* For whoever waits for all children: this one can be waited for. */
void helpers_reap(struct helpers *helpers, pid_t pid);
