/* The terminal: shows canvases and reads keys. All that knows of ncurses. */
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

/* Takes the terminal over. 0 or a negative errno, with words. */
int terminal_start(const struct terminal_options *options, struct terminal **ret,
                   struct terminal_error *error);
/* Gives it back as it was. */
void terminal_stop(struct terminal *terminal);

/* Whether what is not ASCII can be shown: by the locale, which is set by the first call. */
bool terminal_knows_utf8(void);

/* Lets go of it for a while: the shell has it. */
void terminal_suspend(struct terminal *terminal);

/* Its size now; 0 if it has none. */
void terminal_size(const struct terminal *terminal, unsigned *ret_rows, unsigned *ret_columns);

/* Draws the rows that are others than those that it shows. With `anew` all of them, whatever it is
 * thought to show. */
void terminal_show(struct terminal *terminal, const struct canvas *canvas, bool anew);

/* What is readable when there are keys. */
int terminal_keys_fd(const struct terminal *terminal);
/* The next key that waits (keys.h); 0: there is none. */
int terminal_key(struct terminal *terminal);
