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
    struct snapshot *snapshot;
    struct anomaly_list anomalies; /* open ones that are known; in the snapshot's arena */
    int64_t open_anomalies;        /* their number; INT_UNKNOWN: not known */
    uint64_t boot_ns;              /* when it arrived, on the boot clock */
    bool is_jump;                  /* does not follow the frame before */
    bool is_past;                  /* precedes a jump: for trends, not shown */
};

void frame_done(struct frame *frame);

struct feed_status {
    enum feed_kind kind;
    char place[256]; /* the socket or the database */
    double interval_seconds;

    /* The daemon is gone: since when (wall clock), and why; with another kind of feed, why it is
     * not the daemon's. */
    bool is_down;
    double down_since;
    char words[512];

    /* For a history: */
    bool is_playing;
    double speed;          /* 10: ten times as fast */
    double first, last;    /* the stored time */
    size_t position;       /* of the last frame, from 0 */
    size_t count;          /* number of frames */
    size_t anomalies;      /* number of episodes */
    size_t next_anomalies; /* of these, after the position */
};

enum feed_order {
    FEED_PLAY_OR_PAUSE,
    FEED_STEP,    /* by `amount` frames */
    FEED_SKIP,    /* by `amount` seconds */
    FEED_SEEK,    /* to the first frame at or after `amount` (Unix seconds) */
    FEED_ANOMALY, /* to the start of the next (1) or previous (-1) one */
    FEED_SPEED,   /* times `amount` */
};

struct feed_command {
    enum feed_order order;
    double amount;
};

#define FEED_SPEED_DEFAULT 10.0
#define FEED_SPEED_MIN     1.0
#define FEED_SPEED_MAX     1000.0

/* All of it must outlive the feed. */
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
    void (*on_news)(void *context, const struct event_line *news);
    void (*on_status)(void *context, const struct feed_status *status);
    void (*on_end)(void *context); /* of an unpaced history */
    void *context;
};

/* A message that names the thing, the cause and the fix; no newline. */
struct feed_error {
    char text[512];
};

struct feed;

/* A daemon that does not answer is retried, like one that goes away later; one that rejects this
 * user is replaced by the local collector. The first frame may come before it returns. Returns 0 or
 * a negative errno, with a message. */
int feed_open(uv_loop_t *loop, const struct feed_options *options, const struct feed_sink *sink,
              struct feed **ret, struct feed_error *error);
void feed_close(struct feed *feed);

/* Ignores commands that this kind of feed does not support. */
void feed_command(struct feed *feed, const struct feed_command *command);
