/* What the user has chosen, and what keys make of it. No terminal and no feed: a key comes in, the
 * state changes, and what has to be done about it goes out. */
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
    PANEL_CONFIRM, /* of a signal */
};

enum prompt {
    PROMPT_NONE,
    PROMPT_SEARCH,
    PROMPT_FILTER,
    PROMPT_TIME,
};

#define VIEW_WORDS_MAX   128
#define VIEW_MESSAGE_MAX 512
/* How long a message stays. */
#define VIEW_MESSAGE_SECONDS 5.0

struct view {
    struct key_world world;
    enum arrangement arrangement;
    const struct field *sort;
    bool is_ascending;
    char filter[VIEW_WORDS_MAX];
    char search[VIEW_WORDS_MAX];
    struct key_set folded;
    struct key_set tagged;

    size_t selected; /* row */
    uint64_t selected_key;
    size_t first; /* row that is at the top of the table */
    size_t page;  /* rows that there is room for, as drawn last */
    size_t shift; /* columns of command lines that are scrolled out */
    bool follows;
    bool has_found;   /* the selection is what was searched for, and was not moved since */
    bool wants_alarm; /* the first row with an anomaly is to be selected when it comes */
    bool is_paused;   /* of what is live: frames come and are not shown */
    bool has_detail;
    bool has_timeline;

    enum panel panel;
    size_t panel_selected;
    enum prompt prompt;
    char input[VIEW_WORDS_MAX];
    char before_prompt[VIEW_WORDS_MAX]; /* what Esc goes back to */

    struct VEC(struct signal_target) targets; /* of a signal that is being asked for */
    char target_name[VIEW_WORDS_MAX];
    int signal;

    char message[VIEW_MESSAGE_MAX];
    enum look message_look;
    double message_until;
};

/* What a key has made necessary. */
struct view_effect {
    bool rebuilds; /* the rows */
    bool redraws;  /* all of the screen, whatever the terminal is thought to show */
    bool quits;
    bool kills; /* `signal` to `targets` */
    bool has_command;
    struct feed_command command;
};

struct view_options {
    bool is_history;
    bool is_readonly;
};

void view_init(struct view *view, const struct view_options *options);
void view_done(struct view *view);

struct listing_wish view_wish(const struct view *view);

/* The rows are others: finds what was selected again, and keeps it in sight. `now` is the wall
 * clock. */
void view_settle(struct view *view, const struct listing *listing, double now);
/* So many rows of the table can be seen. */
void view_set_page(struct view *view, const struct listing *listing, size_t page);

/* NULL: there is none. */
const struct row *view_selected(const struct view *view, const struct listing *listing);

struct view_effect view_key(struct view *view, const struct listing *listing, int key, double now);

void view_say(struct view *view, enum look look, double now, const char *format, ...)
    _printf_(4, 5);

/* The signals that can be sent, the usual one first in sight. */
struct signal_entry {
    int number;
    const char *name;
};

extern const struct signal_entry signal_table[];
extern const size_t signal_count;
