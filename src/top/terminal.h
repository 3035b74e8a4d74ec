/* The terminal: shows canvases and reads keys. With curses-loader the only user of ncurses. */
#pragma once

#include <stdbool.h>

#include "top/canvas.h"

struct terminal;

struct terminal_options {
    bool with_colour;
};

struct terminal_error {
    char text[256];
};

/* Switches the terminal to the screen. Returns 0, or a negative errno with a message in `error`. */
int terminal_start(const struct terminal_options *options, struct terminal **ret,
                   struct terminal_error *error);
/* Restores the terminal. */
void terminal_stop(struct terminal *terminal);

/* Sets the locale, for ncurses. Returns whether it is a UTF-8 one. */
bool terminal_set_locale(void);

/* Returns the terminal to the shell until the next terminal_show(). */
void terminal_suspend(struct terminal *terminal);

/* The current size; 0 if unknown. */
void terminal_size(const struct terminal *terminal, unsigned *ret_rows, unsigned *ret_columns);

/* Draws the rows that changed; with `anew`, all rows. */
void terminal_show(struct terminal *terminal, const struct canvas *canvas, bool anew);

/* The descriptor to poll for keys. */
int terminal_keys_fd(const struct terminal *terminal);
/* The next pending key (keys.h); 0: none. */
int terminal_key(struct terminal *terminal);
