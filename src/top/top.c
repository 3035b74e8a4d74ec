#include "top/top.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/human.h"
#include "client/feed-thread.h"
#include "loop/alarm.h"
#include "loop/fd-watch.h"
#include "loop/signals.h"
#include "top/screen.h"
#include "top/terminal.h"
#include "top/users.h"

/* Messages expire and the time without a daemon grows even when no data arrives. */
#define CLOCK_MSEC 1000

struct top {
    const struct top_options *options;
    uv_loop_t loop;
    struct feed_thread *feed;
    struct terminal *terminal;
    struct fd_watch *keys;
    struct signal_watch *signals;
    struct alarm *clock;
    uv_check_t painter; /* draws once per loop iteration */
    bool has_painter;

    struct feed_status status;
    struct frame frame;   /* shown */
    struct frame waiting; /* the latest while paused */
    struct listing listing;
    struct view view;
    struct timeline timeline;
    struct trails trails;
    struct users users;
    struct canvas canvas;
    bool is_ascii;
    bool is_dirty;
    bool draws_anew;
};

static double now(void)
{
    return ns_to_sec(clock_real_ns());
}

/* ---- drawing ---- */

static void rebuild(struct top *top)
{
    const struct listing_request request = view_listing_request(&top->view);

    if (!top->frame.snapshot)
        return;
    if (listing_build(&top->listing, &top->frame, &request) < 0)
        view_message(&top->view, LOOK_BAD, now(), "out of memory: not all rows are shown");
    view_settle(&top->view, &top->listing, now());
}

static const char *find_user(void *context, int64_t uid)
{
    return users_find(context, uid);
}

static void draw(struct top *top)
{
    const struct screen screen = {
        .frame = top->frame.snapshot ? &top->frame : NULL,
        .status = &top->status,
        .listing = &top->listing,
        .view = &top->view,
        .timeline = &top->timeline,
        .trails = &top->trails,
        .now = now(),
        .user_name = find_user,
        .context = &top->users,
    };
    unsigned rows, columns;

    terminal_size(top->terminal, &rows, &columns);
    if (canvas_begin(&top->canvas, rows, columns, top->is_ascii) < 0)
        return;
    struct layout layout = screen_layout(&screen, top->canvas.rows, top->canvas.columns);
    view_set_page(&top->view, &top->listing, layout.table.count);
    screen_draw(&screen, &top->canvas);
    if (canvas_error(&top->canvas) < 0)
        return; /* the last complete screen stays */
    terminal_show(top->terminal, &top->canvas, top->draws_anew);
    top->draws_anew = false;
}

static void on_paint(uv_check_t *painter)
{
    struct top *top = painter->data;

    if (!top->is_dirty)
        return;
    top->is_dirty = false;
    draw(top);
}

/* ---- data from the feed ---- */

static void show_frame(struct top *top, struct frame *frame)
{
    trails_add(&top->trails, frame->snapshot);
    if (frame->is_past) {
        frame_done(frame);
        return;
    }
    frame_done(&top->frame);
    top->frame = frame_take(frame);
    rebuild(top);
    top->is_dirty = true;
}

static void on_frame(void *context, struct frame *frame)
{
    struct top *top = context;

    if (frame->is_jump) {
        trails_clear(&top->trails);
        timeline_clear(&top->timeline);
    }
    if (!top->view.is_paused) {
        show_frame(top, frame);
        return;
    }
    frame_done(&top->waiting);
    top->waiting = frame_take(frame);
}

static void on_headline(void *context, struct headline *headline)
{
    struct top *top = context;

    timeline_add(&top->timeline, headline);
    top->is_dirty |= !top->view.is_paused;
}

static void on_status(void *context, const struct feed_status *status)
{
    struct top *top = context;

    top->status = *status;
    top->is_dirty = true;
}

static void on_clock(void *context)
{
    struct top *top = context;

    top->is_dirty = true;
    alarm_set(top->clock, CLOCK_MSEC);
}

/* ---- sending signals ---- */

static void send_signals(struct top *top)
{
    struct view *view = &top->view;
    size_t sent = 0, gone = 0, failed = 0;
    int error = 0;
    struct human name;

    for (size_t i = 0; i < view->targets.count; i++) {
        int r = signal_send(&view->targets.items[i], view->signal);
        sent += r == 0;
        gone += r == -ESRCH;
        failed += r < 0 && r != -ESRCH;
        if (r < 0 && r != -ESRCH)
            error = r;
    }
    human_signal(&name, view->signal);
    if (failed)
        view_message(view, LOOK_BAD, now(), "%s: %zu failed (%s), %zu sent", name.text, failed,
                     strerror(-error), sent);
    else if (gone)
        view_message(view, LOOK_DOUBTFUL, now(), "%s: %zu already ended, %zu sent", name.text, gone,
                     sent);
    else
        view_message(view, LOOK_GOOD, now(), "%s sent to %s", name.text, view->target_name);
    if (sent == view->targets.count)
        key_set_clear(&view->tagged);
}

/* ---- keys ---- */

static void show_waiting_frame(struct top *top)
{
    if (!top->view.is_paused && top->waiting.snapshot) {
        struct frame frame = top->waiting;
        top->waiting = (struct frame){0};
        show_frame(top, &frame);
    }
}

static void handle_key(struct top *top, int key)
{
    struct view_effect effect = view_key(&top->view, &top->listing, key, now());

    top->is_dirty = true;
    top->draws_anew |= effect.redraws;
    if (effect.has_command)
        feed_thread_command(top->feed, &effect.command);
    if (effect.kills)
        send_signals(top);
    if (effect.rebuilds)
        rebuild(top);
    if (effect.quits)
        uv_stop(&top->loop);
    show_waiting_frame(top);
}

static bool has_hung_up(int fd)
{
    struct pollfd terminal = {.fd = fd};

    return poll(&terminal, 1, 0) > 0 && (terminal.revents & (POLLHUP | POLLERR | POLLNVAL));
}

static void on_keys(void *context, int fd)
{
    struct top *top = context;
    int key;

    while ((key = terminal_key(top->terminal)))
        handle_key(top, key);
    if (has_hung_up(fd))
        uv_stop(&top->loop);
}

/* ---- receiving signals ---- */

static void suspend(struct top *top, int number)
{
    terminal_suspend(top->terminal);
    signals_stop_self(number, NULL, NULL);
    top->is_dirty = top->draws_anew = true;
}

static void on_signal(void *context, const struct signalfd_siginfo *info)
{
    struct top *top = context;

    switch (info->ssi_signo) {
    case SIGWINCH: top->is_dirty = true; break;
    case SIGCONT:
        top->is_dirty = top->draws_anew = true;
        break; /* other programs may have written to the terminal */
    case SIGTSTP:
    case SIGTTIN:
    case SIGTTOU: suspend(top, (int)info->ssi_signo); break;
    case SIGHUP:
    case SIGINT:
    case SIGQUIT:
    case SIGTERM: uv_stop(&top->loop); break;
    default: break;
    }
}

/* ---- start and stop ---- */

static int start_feed(struct top *top, struct feed_error *error)
{
    const struct feed_receiver receiver = {
        .on_frame = on_frame, .on_headline = on_headline, .on_status = on_status, .context = top};

    return feed_thread_start(&top->loop, &top->options->feed, &receiver, &top->feed, error);
}

static int start_screen(struct top *top, struct feed_error *error)
{
    const struct terminal_options options = {.with_colour = !top->options->without_colour};
    struct terminal_error reason = {""};

    top->is_ascii = !terminal_set_locale() || top->options->without_unicode;
    int r = terminal_start(&options, &top->terminal, &reason);
    if (r < 0)
        snprintf(error->text, sizeof(error->text), "%s", reason.text);
    return r;
}

static int start_watches(struct top *top)
{
    int r = signal_watch_start(&top->loop, on_signal, top, &top->signals);
    if (r == 0)
        r = fd_watch_start(&top->loop, terminal_keys_fd(top->terminal), false, on_keys, top,
                           &top->keys);
    if (r == 0)
        r = alarm_new(&top->loop, on_clock, top, &top->clock);
    if (r < 0)
        return r;
    uv_check_init(&top->loop, &top->painter);
    top->painter.data = top;
    top->has_painter = true;
    uv_check_start(&top->painter, on_paint);
    alarm_set(top->clock, 0);
    return 0;
}

/* Restores the terminal first: the rest may take a moment. */
static void stop(struct top *top)
{
    fd_watch_close(top->keys);
    terminal_stop(top->terminal);
    feed_thread_stop(top->feed);
    signal_watch_close(top->signals);
    alarm_close(top->clock);
    if (top->has_painter)
        uv_close((uv_handle_t *)&top->painter, NULL);
    while (uv_run(&top->loop, UV_RUN_DEFAULT)) /* an earlier uv_stop() may end one run */
        ;
    uv_loop_close(&top->loop);
    frame_done(&top->frame);
    frame_done(&top->waiting);
    listing_done(&top->listing);
    view_done(&top->view);
    timeline_done(&top->timeline);
    trails_done(&top->trails);
    users_done(&top->users);
    canvas_done(&top->canvas);
}

int top_run(const struct top_options *options, struct feed_error *error)
{
    struct top top = {.options = options};
    const struct view_options view = {.is_history = real_is_known(options->feed.since),
                                      .is_readonly = options->is_readonly};
    struct signal_state original;

    int r = uv_loop_init(&top.loop);
    if (r < 0)
        return r;
    signals_take_over(&original); /* before the thread, which inherits the blocked signals */
    view_init(&top.view, &view);
    r = start_feed(&top, error);
    if (r == 0)
        r = start_screen(&top, error);
    if (r == 0)
        r = start_watches(&top);
    if (r == 0)
        uv_run(&top.loop, UV_RUN_DEFAULT);
    stop(&top);
    signals_restore(&original);
    return r;
}
