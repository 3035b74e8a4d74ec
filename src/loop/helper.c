#include "loop/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd-io.h"
#include "base/macros.h"
#include "base/text.h"
#include "loop/alarm.h"
#include "loop/fd-watch.h"

/* Limits on one wakeup, so that a helper that writes without end cannot block the loop. */
#define READ_BYTES       (16 << 10)
#define READS_PER_WAKEUP 16

/* How long helpers_close() waits for killed helpers: one may hang in a driver. */
#define LAST_WAIT_MS 500
/* For a helper that has ended while its tracer still delays the wait. */
#define REAP_RETRY_MS 500

struct helper {
    struct helpers *all;
    struct helper *next;
    struct helper_options options;
    pid_t pid;
    struct fd_watch *end;
    struct fd_watch *stream;
    int stream_fd;
    int report_fd;
    struct alarm *alarm;
    uint64_t kill_at_ms; /* by the loop's clock; 0: the stop signal was not sent yet */
    struct text output;
    bool was_late;
    bool was_cut;
    bool has_ended; /* `on_end` was called */
};

struct helpers {
    uv_loop_t *loop;
    struct helpers_options options;
    struct helper *first;
};

/* ---- finding programs ---- */

/* Whether no other user can replace the program. */
static bool is_safe_program(const char *path)
{
    struct stat status;

    return stat(path, &status) == 0 && S_ISREG(status.st_mode) && access(path, X_OK) == 0 &&
           (status.st_uid == 0 || status.st_uid == geteuid()) &&
           !(status.st_mode & (S_IWGRP | S_IWOTH));
}

static bool is_safe_directory(const char *path)
{
    _cleanup_close_ int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);

    return fd >= 0 && !fd_others_can_write(fd);
}

int helper_find(const char *name, char *into, size_t capacity)
{
    const char *rest = getenv("PATH");
    char directory[PATH_MAX];

    while (rest && *rest) {
        size_t length = strcspn(rest, ":");
        snprintf(directory, sizeof(directory), "%.*s", (int)MIN(length, sizeof(directory) - 1),
                 rest);
        rest += length + (rest[length] == ':');
        if (directory[0] != '/' || !is_safe_directory(directory))
            continue;
        int n = snprintf(into, capacity, "%s/%s", directory, name);
        if (n > 0 && (size_t)n < capacity && is_safe_program(into))
            return 0;
    }
    return -ENOENT;
}

/* ---- one helper ---- */

static void helper_free(struct helper *helper)
{
    fd_watch_close(helper->end);
    if (helper->stream)
        fd_watch_close(helper->stream); /* and its descriptor */
    else
        close_fd(helper->stream_fd);
    close_fd(helper->report_fd);
    alarm_close(helper->alarm);
    text_done(&helper->output);
    free(helper);
}

/* A helper becomes a group leader only some time after the fork. */
static void kill_group(const struct helper *helper, int number)
{
    if (kill(-helper->pid, number) < 0 && errno == ESRCH)
        kill(helper->pid, number);
}

static void retry_reap(struct helper *helper);

static void on_alarm(void *context)
{
    struct helper *helper = context;

    if (helper->has_ended) {
        retry_reap(helper);
        return;
    }
    helper->was_late = true;
    if (helper->kill_at_ms)
        kill_group(helper, SIGKILL);
    else
        helper_stop(helper, helper->options.grace_ms);
}

void helper_stop(struct helper *helper, uint64_t grace_ms)
{
    uint64_t kill_at_ms = uv_now(helper->all->loop) + grace_ms;

    if (helper->has_ended || (helper->kill_at_ms && helper->kill_at_ms <= kill_at_ms))
        return;
    if (!helper->kill_at_ms)
        kill_group(helper, helper->options.stop_signal);
    helper->kill_at_ms = kill_at_ms;
    alarm_set(helper->alarm, grace_ms);
}

void helper_set_deadline(struct helper *helper, uint64_t deadline_ms)
{
    if (helper->kill_at_ms || helper->has_ended)
        return;
    if (deadline_ms)
        alarm_set(helper->alarm, deadline_ms);
    else
        alarm_stop(helper->alarm);
}

static void close_stream(struct helper *helper)
{
    fd_watch_close(helper->stream);
    helper->stream = NULL;
    helper->stream_fd = -1;
}

static void append_output(struct helper *helper, const char *bytes, size_t length)
{
    size_t room = helper->options.output_max - helper->output.length;

    if (helper->options.on_chunk) {
        helper->options.on_chunk(helper->options.context, bytes, length);
        return;
    }
    text_append(&helper->output, bytes, MIN(length, room));
    if (length > room || text_error(&helper->output) < 0)
        helper->was_cut = true;
}

/* Returns false at the end of the output or of what may be kept. */
static bool read_some(struct helper *helper, int fd)
{
    char piece[READ_BYTES];

    for (int i = 0; i < READS_PER_WAKEUP && !helper->was_cut; i++) {
        ssize_t n = read(fd, piece, sizeof(piece));
        if (n < 0)
            return errno == EAGAIN || errno == EINTR;
        if (n == 0)
            return false;
        append_output(helper, piece, (size_t)n);
    }
    return !helper->was_cut;
}

static void report_output(const struct helper *helper)
{
    if (helper->options.on_output)
        helper->options.on_output(helper->options.context, text_string(&helper->output),
                                  helper->output.length);
}

static void on_stream(void *context, int fd)
{
    struct helper *helper = context;

    bool has_more = read_some(helper, fd);
    if (helper->was_cut)
        helper_stop(helper, helper->options.grace_ms);
    if (!has_more)
        close_stream(helper);
    report_output(helper);
}

/* Calls `on_end`, only once: retry_reap() may come later. */
static void report_end(struct helper *helper, int wait_status)
{
    struct helper_end end = {.wait_status = wait_status,
                             .was_late = helper->was_late,
                             .was_cut = helper->was_cut,
                             .output = text_string(&helper->output),
                             .length = helper->output.length};

    if (helper->has_ended)
        return;
    helper->has_ended = true;
    spawn_read_report(helper->report_fd, &end.report);
    helper->options.on_end(helper->options.context, &end);
}

static void remove_helper(struct helper *helper)
{
    struct helpers *all = helper->all;
    struct helper **link = &all->first;

    while (*link != helper)
        link = &(*link)->next;
    *link = helper->next;
    if (all->options.on_end)
        all->options.on_end(all->options.context, helper->pid);
    helper_free(helper);
}

/* Called when the helper has ended. Kills the rest of its group before the reap, while the kernel
 * cannot reuse the group's id. A tracer may delay the reap; the alarm then retries it. */
static void finish(struct helper *helper)
{
    int status = -1;

    kill_group(helper, SIGKILL);
    if (helper->stream) {
        read_some(helper, helper->stream_fd);
        report_output(helper);
    }
    bool is_reaped = waitpid(helper->pid, &status, WNOHANG) != 0;
    report_end(helper, status);
    if (is_reaped) {
        remove_helper(helper);
        return;
    }
    if (helper->stream)
        close_stream(helper);
    fd_watch_close(helper->end);
    helper->end = NULL;
    alarm_set(helper->alarm, REAP_RETRY_MS);
}

static void retry_reap(struct helper *helper)
{
    if (waitpid(helper->pid, NULL, WNOHANG) == 0)
        alarm_set(helper->alarm, REAP_RETRY_MS);
    else
        remove_helper(helper);
}

static void on_end(void *context, int fd _unused_)
{
    finish(context);
}

static int start_program(struct helper *helper)
{
    const struct helper_options *options = &helper->options;
    int pipe_fds[2];

    if (pipe2(pipe_fds, O_CLOEXEC) < 0)
        return -errno;
    helper->stream_fd = pipe_fds[0];
    _cleanup_close_ int write_fd = pipe_fds[1];
    /* Only our end: the helper must block when the pipe is full. */
    if (fcntl(helper->stream_fd, F_SETFL, O_NONBLOCK) < 0)
        return -errno;
    bool reads_stdout = options->reads == HELPER_READ_STDOUT;
    const struct spawn_helper_options spawn = {
        .argv = options->argv,
        .user = options->user,
        .stdout_fd = reads_stdout ? write_fd : -1,
        .stdout_path = options->stdout_path,
        .file_max_bytes = options->file_max_bytes,
        .stderr_fd = reads_stdout ? -1 : write_fd,
        .death_signal = options->stop_signal,
    };
    int r = spawn_helper(&spawn, &helper->pid, &helper->report_fd);
    if (r == 0)
        fcntl(helper->report_fd, F_SETFL, O_NONBLOCK);
    return r;
}

/* Watches the started program; kills it on failure. */
static int watch_program(struct helper *helper)
{
    uv_loop_t *loop = helper->all->loop;
    int fd = (int)syscall(SYS_pidfd_open, helper->pid, 0);

    int r = fd < 0 ? -errno : fd_watch_start(loop, fd, true, on_end, helper, &helper->end);
    if (r < 0)
        close_fd(fd);
    if (r == 0)
        r = fd_watch_start(loop, helper->stream_fd, true, on_stream, helper, &helper->stream);
    if (r < 0) {
        kill_group(helper, SIGKILL);
        while (waitpid(helper->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    return r;
}

int helper_start(struct helpers *helpers, const struct helper_options *options, struct helper **ret)
{
    struct helper *helper = calloc(1, sizeof(*helper));
    if (!helper)
        return -ENOMEM;

    *helper =
        (struct helper){.all = helpers, .options = *options, .stream_fd = -1, .report_fd = -1};
    int r = alarm_new(helpers->loop, on_alarm, helper, &helper->alarm);
    if (r == 0)
        r = start_program(helper);
    if (r == 0)
        r = watch_program(helper);
    if (r < 0) {
        helper_free(helper);
        return r;
    }
    helper_set_deadline(helper, options->deadline_ms);
    helper->next = helpers->first;
    helpers->first = helper;
    if (helpers->options.on_start)
        helpers->options.on_start(helpers->options.context, helper->pid);
    *ret = helper;
    return 0;
}

void helper_pause(struct helper *helper)
{
    if (helper->stream)
        fd_watch_pause(helper->stream);
}

void helper_resume(struct helper *helper)
{
    if (helper->stream)
        fd_watch_resume(helper->stream); /* if this fails, finish() reads the rest of the output */
}

pid_t helper_pid(const struct helper *helper)
{
    return helper->pid;
}

/* ---- all helpers ---- */

int helpers_new(uv_loop_t *loop, const struct helpers_options *options, struct helpers **ret)
{
    struct helpers *helpers = calloc(1, sizeof(*helpers));
    if (!helpers)
        return -ENOMEM;

    *helpers = (struct helpers){.loop = loop, .options = *options};
    *ret = helpers;
    return 0;
}

void helpers_close(struct helpers *helpers)
{
    int waited_ms = 0;

    if (!helpers)
        return;
    for (struct helper *helper = helpers->first; helper; helper = helper->next)
        kill_group(helper, SIGKILL);
    while (helpers->first) {
        struct helper *helper = helpers->first;
        /* A helper in an uninterruptible sleep is left to init. */
        while (waitpid(helper->pid, NULL, WNOHANG) == 0 && waited_ms++ < LAST_WAIT_MS)
            poll(NULL, 0, 1);
        remove_helper(helper);
    }
    free(helpers);
}

static struct helper *find_helper(const struct helpers *helpers, pid_t pid)
{
    struct helper *helper = helpers->first;

    while (helper && helper->pid != pid)
        helper = helper->next;
    return helper;
}

bool helpers_is_empty(const struct helpers *helpers)
{
    return !helpers->first;
}

bool helpers_have(const struct helpers *helpers, pid_t pid)
{
    return find_helper(helpers, pid) != NULL;
}

void helpers_reap(struct helpers *helpers, pid_t pid)
{
    struct helper *helper = find_helper(helpers, pid);

    if (helper && helper->has_ended)
        retry_reap(helper);
    else if (helper)
        finish(helper);
}
