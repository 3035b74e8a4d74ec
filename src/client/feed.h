/* The one reader behind `sonde top`: frames and news, from wherever they can be had.
 *
 * Live ones come from a daemon's stream, and one that goes away is waited for; or from a collector
 * of our own, if no daemon was there to begin with. Past ones come out of the database, and are
 * played, stepped and jumped through. Whoever shows them need not know which. Belongs to the loop's
 * thread; what it gives is whole and the receiver's. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "config/config.h"
#include "model/event.h"
#include "model/snapshot.h"
#include "report/news.h"

enum feed_kind {
    FEED_DAEMON,
    FEED_LOCAL,
    FEED_HISTORY,
};

/* A snapshot, and what was wrong then. */
struct frame {
    struct snapshot *snapshot;
    struct anomaly_list anomalies; /* open ones that are known; in the snapshot's arena */
    int64_t open_anomalies;        /* how many there were; INT_UNKNOWN: not told */
    uint64_t boot_ns;              /* when it came, on the clock that ages are counted on */
    bool is_jump;                  /* what came before is not what led to it */
    bool is_past;                  /* led to what comes next: to be remembered, not shown */
};

void frame_done(struct frame *frame);

struct feed_status {
    enum feed_kind kind;
    char place[256]; /* the socket or the database */
    double interval_seconds;

    /* A daemon that is gone: since when (wall clock), and why; or, with a feed of another kind, why
     * it is not the daemon's. */
    bool is_down;
    double down_since;
    char words[512];

    /* Of a history: */
    bool is_playing;
    double speed;          /* 10: ten times as fast as it was */
    double first, last;    /* what there is of it */
    size_t position;       /* of the frame that was given last, from 0 */
    size_t count;          /* frames that there are */
    size_t anomalies;      /* episodes that there were */
    size_t next_anomalies; /* of these, those that open after the position */
};

enum feed_order {
    FEED_PLAY_OR_PAUSE,
    FEED_STEP,    /* by `amount` frames */
    FEED_SKIP,    /* by `amount` seconds */
    FEED_SEEK,    /* to the first frame at `amount` (Unix seconds) or after it */
    FEED_ANOMALY, /* to where the next (1) or the one before (-1) opened */
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
    const char *const *socket_paths; /* where daemons may be; NULL: do not look for one */
    const char *database_path;       /* NULL: there is none */
    const struct config *config;     /* for a collector of our own */
    uint64_t interval_ns;            /* how often a live one is wanted */
    const char *job;                 /* job_id or run_id: nothing but that; NULL: all */
    double since;                    /* the history from then on; REAL_UNKNOWN: live */
    bool is_unpaced;                 /* a history all at once, to its end */
};

struct feed_sink {
    void (*on_frame)(void *context, struct frame *frame); /* takes what is in it */
    void (*on_news)(void *context, const struct news *news);
    void (*on_status)(void *context, const struct feed_status *status);
    void (*on_end)(void *context); /* of an unpaced history */
    void *context;
};

/* What went wrong, in words that name the thing, the cause and the fix; no newline. */
struct feed_error {
    char text[512];
};

struct feed;

/* A daemon that is there and does not answer is waited for, as one that goes away later; one that
 * does not let us in is done without. The first frame may come before it returns. 0 or a negative
 * errno, with words. */
int feed_open(uv_loop_t *loop, const struct feed_options *options, const struct feed_sink *sink,
              struct feed **ret, struct feed_error *error);
void feed_close(struct feed *feed);

/* What a feed of that kind cannot do is passed over. */
void feed_command(struct feed *feed, const struct feed_command *command);
