/* The key bindings: one table, from which the help screen and the bottom bar derive as well. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Keys are characters, or one of these. */
enum {
    KEYS_FIRST = 0x110000, /* past the last character */
    KEYS_UP,
    KEYS_DOWN,
    KEYS_LEFT,
    KEYS_RIGHT,
    KEYS_PAGE_UP,
    KEYS_PAGE_DOWN,
    KEYS_HOME,
    KEYS_END,
    KEYS_ENTER,
    KEYS_ESCAPE,
    KEYS_BACKSPACE,
    KEYS_TAB,
    KEYS_REDRAW,
    KEYS_F0, /* F1 is the next */
    KEYS_F12 = KEYS_F0 + 12,
};

enum action {
    ACTION_NONE,
    ACTION_UP,
    ACTION_DOWN,
    ACTION_PAGE_UP,
    ACTION_PAGE_DOWN,
    ACTION_HOME,
    ACTION_END,
    ACTION_LEFT,
    ACTION_RIGHT,
    ACTION_DETAIL,
    ACTION_FOLD,
    ACTION_FOLD_ALL,
    ACTION_TAG,
    ACTION_UNTAG_ALL,
    ACTION_FOLLOW,
    ACTION_SEARCH,
    ACTION_SEARCH_NEXT,
    ACTION_FILTER,
    ACTION_ARRANGE,
    ACTION_SORT,
    ACTION_SORT_CPU,
    ACTION_SORT_MEMORY,
    ACTION_SORT_TIME,
    ACTION_SORT_PID,
    ACTION_INVERT,
    ACTION_TIMELINE,
    ACTION_KILL,
    ACTION_PAUSE,
    ACTION_NEXT_ALARM,
    ACTION_PREVIOUS_ALARM,
    ACTION_STEP,
    ACTION_STEP_BACK,
    ACTION_SKIP,
    ACTION_SKIP_BACK,
    ACTION_JUMP,
    ACTION_FASTER,
    ACTION_SLOWER,
    ACTION_REDRAW,
    ACTION_CANCEL,
    ACTION_HELP,
    ACTION_QUIT,
};

/* When a key has an effect. */
enum key_scope {
    KEY_ALWAYS,
    KEY_LIVE,    /* not in a replay */
    KEY_HISTORY, /* only in a replay */
};

#define KEY_CODES_MAX 5

struct key_entry {
    enum action action;
    int codes[KEY_CODES_MAX]; /* 0 ends them */
    const char *keys;         /* as the help names them */
    const char *meaning;
    const char *bar; /* label in the bottom bar; NULL: not shown there */
    enum key_scope scope;
};

extern const struct key_entry key_table[];
extern const size_t key_count;

/* The conditions under which keys are enabled. */
struct key_mode {
    bool is_history;
    bool is_readonly;
};

bool key_is_enabled(const struct key_entry *entry, const struct key_mode *mode);
enum action key_action(int code, const struct key_mode *mode);
