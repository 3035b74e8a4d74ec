#include "trace/live-trace.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fd-io.h"
#include "base/macros.h"
#include "base/text.h"
#include "loop/alarm.h"
#include "loop/signals.h"
#include "trace/strace-command.h"
#include "trace/strace-output.h"
#include "trace/tracing.h"

/* Time between two attempts to write. The reader of the output may be slow; the loop must not wait
 * for it, because the loop handles Ctrl-C. */
#define WRITE_AGAIN_MSEC 20

struct live {
    uv_loop_t loop;
    struct signal_watch *signals;
    struct helpers *helpers;
    struct helper *helper; /* NULL: it has ended */
    struct alarm *alarm;
    struct strace_command command;
    struct trace_target target;
    struct strace_output output; /* until it has attached */
    struct text pending;         /* output that is not yet written */
    size_t written;              /* bytes of it that are */
    int fd;
    int error;        /* of the output */
    bool is_stopping; /* output that would block is dropped */
    char *reason;
};

static void stop_strace(struct live *live)
{
    live->is_stopping = true;
    if (!live->helper)
        return;
    helper_resume(live->helper);
    helper_stop(live->helper, TRACE_LAST_WAIT_MSEC);
}

static void on_signal(void *context, const struct signalfd_siginfo *info)
{
    switch (info->ssi_signo) {
    case SIGINT:
    case SIGTERM:
    case SIGHUP:
    case SIGQUIT: stop_strace(context); break;
    case SIGTSTP:
    case SIGTTIN:
    case SIGTTOU: signals_stop_self((int)info->ssi_signo, NULL, NULL); break;
    default: break;
    }
}

/* ---- output ---- */

/* A pipe with any room has room for PIPE_BUF bytes. */
static bool can_write(const struct live *live)
{
    struct pollfd poll_fd = {.fd = live->fd, .events = POLLOUT};

    return poll(&poll_fd, 1, 0) > 0;
}

static void write_pending(struct live *live)
{
    while (!live->error && live->written < live->pending.length && can_write(live)) {
        size_t length = MIN(live->pending.length - live->written, (size_t)PIPE_BUF);
        live->error = fd_write_all(live->fd, live->pending.bytes + live->written, length);
        live->written += length;
    }
    bool has_rest = !live->error && !live->is_stopping && live->written < live->pending.length;
    if (!has_rest) {
        text_reset(&live->pending);
        live->written = 0;
    }
    if (live->error && !live->is_stopping)
        stop_strace(live); /* the reader is gone, or the disk is full */
    if (!live->helper || live->is_stopping)
        return;
    if (has_rest) {
        helper_pause(live->helper);
        alarm_set(live->alarm, WRITE_AGAIN_MSEC);
    } else {
        helper_resume(live->helper);
    }
}

static void on_alarm(void *context)
{
    write_pending(context);
}

static void on_chunk(void *context, const char *bytes, size_t length)
{
    struct live *live = context;

    if (live->output.status != STRACE_ATTACHED) {
        strace_output_add(&live->output, bytes, length);
        if (live->output.status == STRACE_ATTACHED)
            helper_set_deadline(live->helper, 0);
    }
    text_append(&live->pending, bytes, length);
    if (text_error(&live->pending) < 0)
        live->error = -ENOMEM;
    /* Output before strace has attached is not written: sonde reports the reason of a failure
     * itself. A flood of it does not come from strace. */
    if (live->output.status == STRACE_ATTACHED)
        write_pending(live);
    else if (live->pending.length > STRACE_TABLE_MAX_BYTES)
        text_reset(&live->pending);
}

static void on_end(void *context, const struct helper_end *end)
{
    struct live *live = context;

    live->helper = NULL;
    if (live->output.status != STRACE_ATTACHED)
        text_reset(&live->pending);
    if (end->report.error)
        trace_fail(live->reason, 0, "%.150s cannot be executed: %s", live->command.program,
                   strerror(end->report.error));
}

/* ---- life cycle ---- */

static int check_target(struct live *live, pid_t pid)
{
    int r = trace_target_read(pid, INT_UNKNOWN, &live->target, live->reason);
    if (r < 0)
        return r;
    if (live->target.tracer_pid)
        return trace_target_fail_busy(&live->target, live->reason);
    if (helper_find("strace", live->command.program, sizeof(live->command.program)) < 0)
        return trace_target_fail_no_strace(live->reason);
    live->output.pid = pid;
    return 0;
}

static int start_strace(struct live *live)
{
    strace_command_stream(&live->command, live->target.pid);
    const struct helper_options options = {
        .argv = live->command.argv,
        .user = live->target.needs_user ? &live->target.user : NULL,
        .stop_signal = SIGINT,
        .deadline_ms = TRACE_ATTACH_MSEC,
        .grace_ms = TRACE_LAST_WAIT_MSEC,
        .reads = HELPER_READ_STDERR,
        .on_chunk = on_chunk,
        .on_end = on_end,
        .context = live,
    };
    return helper_start(live->helpers, &options, &live->helper);
}

static int make_result(struct live *live)
{
    if (live->error && live->error != -EPIPE)
        return trace_fail(live->reason, live->error, "the trace cannot be written: %s",
                          strerror(-live->error));
    if (live->output.status == STRACE_ATTACHED || live->reason[0])
        return live->reason[0] ? -EIO : 0;
    return trace_fail(live->reason, -EPERM, "strace could not attach to process %d%s%s",
                      (int)live->target.pid, live->output.message[0] ? ": " : "",
                      live->output.message);
}

static int run_loop(struct live *live)
{
    int r = signal_watch_start(&live->loop, on_signal, live, &live->signals);
    if (r == 0)
        r = helpers_new(&live->loop, &(struct helpers_options){0}, &live->helpers);
    if (r == 0)
        r = alarm_new(&live->loop, on_alarm, live, &live->alarm);
    if (r == 0)
        r = start_strace(live);
    while (r == 0 && live->helper)
        uv_run(&live->loop, UV_RUN_ONCE);
    /* Writes the last output, unless the user stopped it. */
    while (r == 0 && live->written < live->pending.length && !live->error && !live->is_stopping)
        uv_run(&live->loop, UV_RUN_ONCE);
    return r < 0 ? trace_fail(live->reason, r, "strace cannot be started: %s", strerror(-r))
                 : make_result(live);
}

static void shut_down(struct live *live)
{
    helpers_close(live->helpers);
    signal_watch_close(live->signals);
    alarm_close(live->alarm);
    uv_run(&live->loop, UV_RUN_DEFAULT); /* the close callbacks */
    uv_loop_close(&live->loop);
    strace_output_done(&live->output);
    text_done(&live->pending);
}

static int open_output(struct live *live, const char *path)
{
    live->fd = path ? fd_open_output(path, O_CREAT | O_TRUNC, 0600) : STDOUT_FILENO;
    return live->fd < 0 ? trace_fail(live->reason, live->fd, "%.150s cannot be written: %s", path,
                                     strerror(-live->fd))
                        : 0;
}

int live_trace(pid_t pid, const char *path, char reason[static TRACE_REASON_SIZE])
{
    struct live live = {.reason = reason};
    struct signal_state original;

    reason[0] = '\0';
    int r = check_target(&live, pid);
    if (r == 0)
        r = open_output(&live, path);
    if (r < 0)
        return r;
    r = uv_loop_init(&live.loop);
    if (r < 0) {
        trace_fail(live.reason, r, "%s", strerror(-r));
    } else {
        signals_take_over(&original);
        r = run_loop(&live);
        shut_down(&live);
        signals_restore(&original);
    }
    if (path)
        close_fd(live.fd);
    return r;
}
