#include "engine/live-trace.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/fd-io.h"
#include "base/macros.h"
#include "engine/peek.h"
#include "engine/trace-target.h"
#include "engine/tracing.h"
#include "loop/signals.h"
#include "trace/strace-command.h"
#include "trace/strace-messages.h"

/* Of what strace says at first, for whether it has attached. */
#define FIRST_WORDS_BYTES 1024

struct live {
    uv_loop_t loop;
    struct signal_watch *signals;
    struct helpers *helpers;
    struct helper *helper; /* NULL: it has ended */
    struct strace_command command;
    struct trace_target target;
    int fd;
    int error; /* of writing */
    bool is_attached;
    char first[FIRST_WORDS_BYTES];
    size_t first_length;
    char *words;
};

static int refuse(struct live *live, int error, const char *format, ...) _printf_(3, 4);

static int refuse(struct live *live, int error, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(live->words, LIVE_TRACE_WORDS_SIZE, format, arguments);
    va_end(arguments);
    return error;
}

static void stop(struct live *live)
{
    if (live->helper)
        helper_stop(live->helper, TRACE_LAST_WAIT_MSEC);
}

static void on_signal(void *context, const struct signalfd_siginfo *info)
{
    switch (info->ssi_signo) {
    case SIGINT:
    case SIGTERM:
    case SIGHUP:
    case SIGQUIT: stop(context); break;
    default: break;
    }
}

/* Whether it has attached is in what it says first, before any call. */
static void look_at_first(struct live *live, const char *bytes, size_t length)
{
    size_t room = sizeof(live->first) - live->first_length;

    memcpy(live->first + live->first_length, bytes, MIN(length, room));
    live->first_length += MIN(length, room);
    live->is_attached = strace_messages_parse(live->first, live->first_length, live->target.pid,
                                              NULL, 0) == STRACE_ATTACHED;
    if (live->is_attached)
        helper_set_deadline(live->helper, 0);
}

static void on_piece(void *context, const char *bytes, size_t length)
{
    struct live *live = context;

    if (!live->is_attached)
        look_at_first(live, bytes, length);
    if (live->error)
        return;
    live->error = fd_write_all(live->fd, bytes, length);
    if (live->error)
        stop(live); /* nobody reads it any more, or the disk is full */
}

static void on_end(void *context, const struct helper_end *end _unused_)
{
    struct live *live = context;

    live->helper = NULL;
}

static int check(struct live *live, pid_t pid)
{
    char command[64];

    int r = trace_target_read(pid, &live->target, live->words, LIVE_TRACE_WORDS_SIZE);
    if (r < 0)
        return r;
    if (live->target.tracer_pid) {
        peek_command(live->target.tracer_pid, command, sizeof(command));
        return refuse(live, -EBUSY, "process %d is traced already, by process %d (%.60s)", (int)pid,
                      (int)live->target.tracer_pid, command);
    }
    if (helper_find("strace", live->command.program, sizeof(live->command.program)) < 0)
        return refuse(live, -ENOENT, "strace is not installed (apt install strace)");
    return 0;
}

static int start(struct live *live)
{
    strace_command_stream(&live->command, live->target.pid);
    const struct helper_options options = {
        .argv = live->command.argv,
        .user = live->target.is_ours ? NULL : &live->target.user,
        .stop_signal = SIGINT,
        .deadline_ms = TRACE_ATTACH_MSEC,
        .grace_ms = TRACE_LAST_WAIT_MSEC,
        .reads = HELPER_READ_STDERR,
        .on_piece = on_piece,
        .on_end = on_end,
        .context = live,
    };
    int exec_errno = 0;
    int r = helper_start(live->helpers, &options, &live->helper, &exec_errno);

    return r < 0 ? refuse(live, r, "%.150s cannot be started: %s", live->command.program,
                          strerror(r == -ECHILD ? exec_errno : -r))
                 : 0;
}

/* What strace has said of it was passed on, and is what there is to say. */
static int result_of(struct live *live)
{
    if (live->error && live->error != -EPIPE)
        return refuse(live, live->error, "the trace cannot be written: %s", strerror(-live->error));
    if (live->is_attached)
        return 0;
    return refuse(live, -EPERM, "strace could not attach to process %d", (int)live->target.pid);
}

int live_trace(pid_t pid, int fd, char words[static LIVE_TRACE_WORDS_SIZE])
{
    struct live live = {.fd = fd, .words = words};
    struct signal_state original;

    int r = check(&live, pid);
    if (r == 0)
        r = uv_loop_init(&live.loop);
    if (r < 0)
        return r;
    signals_take_over(&original);
    r = signal_watch_start(&live.loop, on_signal, &live, &live.signals);
    if (r == 0)
        r = helpers_new(&live.loop, &(struct helpers_options){0}, &live.helpers);
    if (r == 0)
        r = start(&live);
    while (r == 0 && live.helper)
        uv_run(&live.loop, UV_RUN_ONCE);
    if (r == 0)
        r = result_of(&live);
    helpers_close(live.helpers);
    signal_watch_close(live.signals);
    uv_run(&live.loop, UV_RUN_DEFAULT); /* the close callbacks */
    uv_loop_close(&live.loop);
    signals_restore(&original);
    return r;
}
