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

/* What is read at once; a helper that floods must not keep the loop from other things. */
#define READ_BYTES  (16 << 10)
#define READS_AWAKE 16

/* How long those that were killed are waited for when all is closed: one may hang in a driver. */
#define LAST_WAIT_MS 500
/* One that has ended, but that we may not wait for yet. */
#define REAP_AGAIN_MS 500

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
    uint64_t kill_at_ms; /* of the loop's clock; 0: it was not asked to end yet */
    struct text output;
    bool was_late;
    bool was_cut;
    bool has_ended; /* and that was told */
};

struct helpers {
    uv_loop_t *loop;
    struct helpers_options options;
    struct helper *first;
};

/* ---- where programs are ---- */

/* A program that somebody else could exchange is not run. */
static bool is_ours_to_run(const char *path)
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
        if (n > 0 && (size_t)n < capacity && is_ours_to_run(into))
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

/* It leads a group soon after it was forked. */
static void kill_group(const struct helper *helper, int number)
{
    if (kill(-helper->pid, number) < 0 && errno == ESRCH)
        kill(helper->pid, number);
}

static void reap_again(struct helper *helper);

static void on_alarm(void *context)
{
    struct helper *helper = context;

    if (helper->has_ended) {
        reap_again(helper);
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

static void stop_listening(struct helper *helper)
{
    fd_watch_close(helper->stream);
    helper->stream = NULL;
    helper->stream_fd = -1;
}

static void keep(struct helper *helper, const char *bytes, size_t length)
{
    size_t room = helper->options.output_max - helper->output.length;

    if (helper->options.on_piece) {
        helper->options.on_piece(helper->options.context, bytes, length);
        return;
    }
    text_append(&helper->output, bytes, MIN(length, room));
    if (length > room || text_error(&helper->output) < 0)
        helper->was_cut = true;
}

/* False once there is nothing more to come, or to be heard. */
static bool read_some(struct helper *helper, int fd)
{
    char piece[READ_BYTES];

    for (int i = 0; i < READS_AWAKE && !helper->was_cut; i++) {
        ssize_t n = read(fd, piece, sizeof(piece));
        if (n < 0)
            return errno == EAGAIN || errno == EINTR;
        if (n == 0)
            return false;
        keep(helper, piece, (size_t)n);
    }
    return !helper->was_cut;
}

static void tell_output(const struct helper *helper)
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
        stop_listening(helper);
    tell_output(helper);
}

static void forget(struct helper *helper)
{
    struct helper **link = &helper->all->first;

    while (*link != helper)
        link = &(*link)->next;
    *link = helper->next;
}

/* Once, whether or not it can be reaped already. */
static void tell_end(struct helper *helper, int wait_status)
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

static void let_go(struct helper *helper)
{
    struct helpers *all = helper->all;

    forget(helper);
    if (all->options.on_end)
        all->options.on_end(all->options.context, helper->pid);
    helper_free(helper);
}

/* It has ended: what it left of its group goes with it, while the group's number is still its own.
 * Whoever traces it may keep us from reaping it: that is not waited for. */
static void finish(struct helper *helper)
{
    int status = -1;

    kill_group(helper, SIGKILL);
    if (helper->stream) {
        read_some(helper, helper->stream_fd);
        tell_output(helper);
    }
    bool is_reaped = waitpid(helper->pid, &status, WNOHANG) != 0;
    tell_end(helper, status);
    if (is_reaped) {
        let_go(helper);
        return;
    }
    if (helper->stream)
        stop_listening(helper);
    fd_watch_close(helper->end);
    helper->end = NULL;
    alarm_set(helper->alarm, REAP_AGAIN_MS);
}

static void reap_again(struct helper *helper)
{
    if (waitpid(helper->pid, NULL, WNOHANG) == 0)
        alarm_set(helper->alarm, REAP_AGAIN_MS);
    else
        let_go(helper);
}

static void on_end(void *context, int fd _unused_)
{
    finish(context);
}

static int pidfd_open_of(pid_t pid)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);

    return fd < 0 ? -errno : fd;
}

static int start_program(struct helper *helper)
{
    const struct helper_options *options = &helper->options;
    int pipe_fds[2];

    if (pipe2(pipe_fds, O_CLOEXEC) < 0)
        return -errno;
    helper->stream_fd = pipe_fds[0];
    _cleanup_close_ int write_fd = pipe_fds[1];
    /* Ours alone: the other end is the helper's, which may well wait. */
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

/* It runs: from now on it is watched, or killed. */
static int watch_program(struct helper *helper)
{
    uv_loop_t *loop = helper->all->loop;
    int fd = pidfd_open_of(helper->pid);

    int r = fd < 0 ? fd : fd_watch_start(loop, fd, true, on_end, helper, &helper->end);
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
        fd_watch_resume(helper->stream); /* or its end is all that is heard of it */
}

pid_t helper_pid(const struct helper *helper)
{
    return helper->pid;
}

/* ---- all of them ---- */

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
        /* One that hangs where no signal reaches it is left to init. */
        while (waitpid(helper->pid, NULL, WNOHANG) == 0 && waited_ms++ < LAST_WAIT_MS)
            poll(NULL, 0, 1);
        let_go(helper);
    }
    free(helpers);
}

static struct helper *find(const struct helpers *helpers, pid_t pid)
{
    struct helper *helper = helpers->first;

    while (helper && helper->pid != pid)
        helper = helper->next;
    return helper;
}

bool helpers_are_none(const struct helpers *helpers)
{
    return !helpers->first;
}

bool helpers_have(const struct helpers *helpers, pid_t pid)
{
    return find(helpers, pid) != NULL;
}

void helpers_reap(struct helpers *helpers, pid_t pid)
{
    struct helper *helper = find(helpers, pid);

    if (helper && helper->has_ended)
        reap_again(helper);
    else if (helper)
        finish(helper);
}
