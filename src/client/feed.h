/* The feed of `sonde top`: frames and events, from one of three sources.
 *
 * Live data comes from a daemon's stream (the feed reconnects when the daemon goes away), or from a
 * local collector if there was no daemon at the start. Past data comes from the database; the user
 * can play it, step and jump. Belongs to the loop's thread; the receiver owns what it gets. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "config/config.h"
#include "model/event.h"
#include "model/snapshot.h"
#include "report/event-line.h"

enum feed_kind {
    FEED_DAEMON,
    FEED_LOCAL,
    FEED_HISTORY,
};

/* A snapshot with the anomalies that were open. */
struct frame {
    const struct snapshot *snapshot; /* a reference */
    struct anomaly_list anomalies;   /* the open ones that the feed knows; in `arena` */
    struct arena arena;
    int64_t open_anomalies; /* the number of all open ones; INT_UNKNOWN: unknown */
    uint64_t boot_ns;       /* when it arrived, on the boot clock */
    bool is_jump;           /* does not continue the previous frame */
    bool is_past;           /* precedes the target of a jump: for trends, not to be shown */
};

void frame_done(struct frame *frame);
/* Empties the frame and returns what it had. */
struct frame frame_take(struct frame *frame);

struct feed_status {
    enum feed_kind kind;
    double interval_seconds;

    bool is_down;      /* the daemon is gone, or snapshots fail */
    double down_since; /* wall clock */
    /* Why it is down; or why the local collector replaces a daemon; or why a stored frame could not
     * be read. Empty: no error. */
    char reason[512];

    /* Only for a history: */
    bool is_playing;
    double speed;          /* 10: ten times as fast */
    double first, last;    /* the stored time */
    size_t position;       /* of the last frame, from 0 */
    size_t count;          /* number of frames */
    size_t anomalies;      /* number of anomalies in the stored time */
    size_t next_anomalies; /* number of anomalies after the position */
};

enum feed_order {
    FEED_PLAY_OR_PAUSE,
    FEED_STEP,    /* by `amount` frames */
    FEED_SKIP,    /* by `amount` seconds */
    FEED_SEEK,    /* to the first frame at or after `amount` (Unix seconds) */
    FEED_ANOMALY, /* to the start of the next (1) or previous (-1) anomaly */
    FEED_SPEED,   /* times `amount` */
};

struct feed_command {
    enum feed_order order;
    double amount;
};

#define FEED_SPEED_DEFAULT 10.0
#define FEED_SPEED_MIN     1.0
#define FEED_SPEED_MAX     1000.0

/* The options and what they point to must outlive the feed. */
struct feed_options {
    const char *const *socket_paths; /* sockets to try; NULL: no daemon */
    const char *database_path;       /* NULL: there is none */
    const struct config *config;     /* for the local collector */
    uint64_t interval_ns;            /* wanted interval of live frames */
    const char *job;                 /* only this job_id or run_id; NULL: all */
    double since;                    /* history from then on; REAL_UNKNOWN: live */
    bool is_unpaced;                 /* a history without pauses, to its end */
};

struct feed_sink {
    void (*on_frame)(void *context, struct frame *frame); /* takes ownership of its content */
    void (*on_event)(void *context, const struct event_line *line);
    void (*on_status)(void *context, const struct feed_status *status);
    void (*on_end)(void *context); /* the end of an unpaced history */
    void *context;
};

/* A message that names the thing, the cause and the fix; no newline. */
struct feed_error {
    char text[512];
};

struct feed;

/* Opens a feed. If a daemon does not answer or goes away later, the feed retries. If a daemon
 * rejects this user, the feed uses the local collector. It may call the sink before it returns.
 * Returns 0 or a negative errno, with a message. */
int feed_open(uv_loop_t *loop, const struct feed_options *options, const struct feed_sink *sink,
              struct feed **ret, struct feed_error *error);
void feed_close(struct feed *feed);

/* Ignores commands that this kind of feed does not support. */
void feed_command(struct feed *feed, const struct feed_command *command);
