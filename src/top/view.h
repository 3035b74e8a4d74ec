/* The state of the user interface. A key changes the state and returns the effects that the caller
 * must carry out. Uses neither the terminal nor the feed. */
#pragma once

#include "client/feed.h"
#include "top/canvas.h"
#include "top/keys.h"
#include "top/listing.h"
#include "top/signal-sender.h"

enum panel {
    PANEL_NONE,
    PANEL_HELP,
    PANEL_SORT,
    PANEL_SIGNALS,
    PANEL_CONFIRM, /* before a signal is sent */
};

enum prompt {
    PROMPT_NONE,
    PROMPT_SEARCH,
    PROMPT_FILTER,
    PROMPT_TIME,
};

#define VIEW_INPUT_MAX   128
#define VIEW_MESSAGE_MAX 512
/* How long a message is shown. */
#define VIEW_MESSAGE_SECONDS 5.0

struct view {
    struct key_mode mode;
    enum arrangement arrangement;
    const struct field *sort;
    bool is_ascending;
    char filter[VIEW_INPUT_MAX];
    char search[VIEW_INPUT_MAX];
    struct key_set folded;
    struct key_set tagged;

    size_t selected; /* row */
    uint64_t selected_key;
    size_t first;     /* first visible row */
    size_t page;      /* visible rows, as last drawn */
    size_t shift;     /* columns by which command lines are scrolled */
    bool follows;     /* the selection stays on its row */
    bool has_found;   /* the selection is a search match */
    bool wants_alarm; /* select the next row with an anomaly */
    bool is_paused;   /* live data arrives but is not shown */
    bool has_detail;
    bool has_timeline;

    enum panel panel;
    size_t panel_selected;
    enum prompt prompt;
    char input[VIEW_INPUT_MAX];
    char before_prompt[VIEW_INPUT_MAX]; /* restored by Esc */

    struct VEC(struct signal_target) targets; /* of the signal to be confirmed */
    char target_name[VIEW_INPUT_MAX];
    int signal;

    char message[VIEW_MESSAGE_MAX];
    enum look message_look;
    double message_until;
};

/* What the caller must do after a key. */
struct view_effect {
    bool rebuilds; /* rebuild the listing */
    bool redraws;  /* redraw the whole screen */
    bool quits;
    bool kills; /* send `signal` to `targets` */
    bool has_command;
    struct feed_command command;
};

struct view_options {
    bool is_history;
    bool is_readonly;
};

void view_init(struct view *view, const struct view_options *options);
void view_done(struct view *view);

/* What listing_build() needs; valid as long as the view. */
struct listing_request view_listing_request(const struct view *view);

/* Restores the selection after the listing changed, and keeps it visible. `now` is the wall clock.
 */
void view_settle(struct view *view, const struct listing *listing, double now);
/* Sets the number of visible rows. */
void view_set_page(struct view *view, const struct listing *listing, size_t page);

/* NULL: no row is selected. */
const struct row *view_selected(const struct view *view, const struct listing *listing);

/* Handles a key (keys.h). */
struct view_effect view_key(struct view *view, const struct listing *listing, int key, double now);

/* Shows a message in the bottom row for VIEW_MESSAGE_SECONDS. */
void view_message(struct view *view, enum look look, double now, const char *format, ...)
    _printf_(4, 5);

/* The signals that can be sent; SIGTERM is first. */
struct signal_entry {
    int number;
    const char *name;
};

extern const struct signal_entry signal_table[];
extern const size_t signal_count;
