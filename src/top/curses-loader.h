/* Loads ncursesw only when the screen is needed, because linking it would add a millisecond to
 * every start of sonde. The members of struct curses are its functions of the same names. */
#pragma once

#define NCURSES_NOMACROS 1
#define NCURSES_WIDECHAR 1
#include <curses.h>

#define CURSES_FUNCTIONS(X)                                                                        \
    X(cbreak)                                                                                      \
    X(clearok)                                                                                     \
    X(curs_set)                                                                                    \
    X(delscreen)                                                                                   \
    X(delwin)                                                                                      \
    X(doupdate)                                                                                    \
    X(endwin)                                                                                      \
    X(has_colors)                                                                                  \
    X(init_pair)                                                                                   \
    X(keypad)                                                                                      \
    X(newterm)                                                                                     \
    X(newwin)                                                                                      \
    X(nodelay)                                                                                     \
    X(noecho)                                                                                      \
    X(nonl)                                                                                        \
    X(resizeterm)                                                                                  \
    X(set_escdelay)                                                                                \
    X(start_color)                                                                                 \
    X(use_default_colors)                                                                          \
    X(waddnwstr)                                                                                   \
    X(wattr_set)                                                                                   \
    X(wclrtoeol)                                                                                   \
    X(wget_wch)                                                                                    \
    X(wmove)                                                                                       \
    X(wnoutrefresh)                                                                                \
    X(wresize)

struct curses {
#define MEMBER(name) __typeof__(name) *name;
    CURSES_FUNCTIONS(MEMBER)
#undef MEMBER
};

/* Loads the library and checks the terminal. Returns 0, -ENOENT (no such library) or -ENOTTY (TERM
 * is unknown, or the terminal cannot position its cursor), with the reason in *ret_reason. */
int curses_load(const struct curses **ret, const char **ret_reason);
