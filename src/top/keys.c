#include "top/keys.h"

#include "base/macros.h"

#define F(n) (KEYS_F0 + (n))

/* In the order of the help screen. The keys are those of htop where it has the same action. */
const struct key_entry key_table[] = {
    {ACTION_UP, {KEYS_UP}, "Up", "move up one row"},
    {ACTION_DOWN, {KEYS_DOWN}, "Down", "move down one row"},
    {ACTION_PAGE_UP, {KEYS_PAGE_UP}, "PgUp", "move up one page"},
    {ACTION_PAGE_DOWN, {KEYS_PAGE_DOWN}, "PgDn", "move down one page"},
    {ACTION_HOME, {KEYS_HOME, 'g'}, "Home g", "go to the first row"},
    {ACTION_END, {KEYS_END, 'G'}, "End G", "go to the last row"},
    {ACTION_LEFT, {KEYS_LEFT}, "Left", "scroll command lines left"},
    {ACTION_RIGHT, {KEYS_RIGHT}, "Right", "scroll command lines right"},
    {ACTION_HELP, {F(1), '?', 'h'}, "F1 ? h", "show this help", "Help"},
    {ACTION_SEARCH, {F(3), '/'}, "F3 /", "search for a command, job or pid", "Search"},
    {ACTION_SEARCH_NEXT, {'n'}, "n", "go to the next match"},
    {ACTION_FILTER, {F(4), '\\'}, "F4 \\", "show only matching rows", "Filter"},
    {ACTION_ARRANGE, {F(5), 't'}, "F5 t", "switch: jobs, tree, list", "Tree"},
    {ACTION_SORT, {F(6), 's', '>'}, "F6 s >", "choose the sort column", "Sort"},
    {ACTION_SORT_CPU, {'P'}, "P", "sort by CPU"},
    {ACTION_SORT_MEMORY, {'M'}, "M", "sort by memory"},
    {ACTION_SORT_TIME, {'T'}, "T", "sort by CPU time"},
    {ACTION_SORT_PID, {'N'}, "N", "sort by process id"},
    {ACTION_INVERT, {'I'}, "I", "reverse the sort order"},
    {ACTION_DETAIL, {KEYS_ENTER}, "Enter", "show or hide details of the row"},
    {ACTION_FOLD, {'-', '+', '='}, "+ -", "fold or unfold a job or a process"},
    {ACTION_FOLD_ALL, {'*'}, "*", "fold or unfold all jobs"},
    {ACTION_TAG, {' '}, "Space", "tag a row"},
    {ACTION_UNTAG_ALL, {'U'}, "U", "untag all"},
    {ACTION_FOLLOW, {'F'}, "F", "keep the row selected"},
    {ACTION_TIMELINE, {KEYS_TAB, 'e'}, "Tab e", "show or hide the events"},
    {ACTION_KILL, {F(9), 'k'}, "F9 k", "send a signal (asks first)", "Kill", KEY_LIVE},
    {ACTION_PAUSE, {'Z', 'p'}, "Z p", "pause or continue", "Pause"},
    {ACTION_NEXT_ALARM, {'a'}, "a", "go to the next anomaly", "Anomaly"},
    {ACTION_PREVIOUS_ALARM, {'A'}, "A", "go to the previous anomaly"},
    {ACTION_STEP, {']'}, "]", "next snapshot", "Step", KEY_HISTORY},
    {ACTION_STEP_BACK, {'['}, "[", "previous snapshot", NULL, KEY_HISTORY},
    {ACTION_SKIP, {'}'}, "}", "one minute forward", NULL, KEY_HISTORY},
    {ACTION_SKIP_BACK, {'{'}, "{", "one minute back", NULL, KEY_HISTORY},
    {ACTION_JUMP, {'j'}, "j", "jump to a time, such as 14:00", "Jump", KEY_HISTORY},
    {ACTION_FASTER, {'f'}, "f", "play faster", NULL, KEY_HISTORY},
    {ACTION_SLOWER, {'d'}, "d", "play slower", NULL, KEY_HISTORY},
    {ACTION_REDRAW, {KEYS_REDRAW}, "Ctrl-L", "redraw the screen"},
    {ACTION_CANCEL, {KEYS_ESCAPE}, "Esc", "close, clear filter, stop following"},
    {ACTION_QUIT, {F(10), 'q'}, "F10 q", "quit", "Quit"},
};
const size_t key_count = ARRAY_SIZE(key_table);

bool key_is_enabled(const struct key_entry *entry, const struct key_mode *mode)
{
    if (entry->action == ACTION_KILL && mode->is_readonly)
        return false;
    return entry->scope == KEY_ALWAYS || (entry->scope == KEY_HISTORY) == mode->is_history;
}

enum action key_action(int code, const struct key_mode *mode)
{
    for (size_t i = 0; i < key_count; i++)
        for (size_t k = 0; k < KEY_CODES_MAX && key_table[i].codes[k]; k++)
            if (key_table[i].codes[k] == code && key_is_enabled(&key_table[i], mode))
                return key_table[i].action;
    return ACTION_NONE;
}
