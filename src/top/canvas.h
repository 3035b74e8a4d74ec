/* The content of a screen, independent of a terminal: rows of text, each piece with a look. Tests
 * read it as a user reads the screen.
 *
 * A row is written from left to right and cut at the right edge. Text from processes must go
 * through row_visible(), which escapes control characters. Errors are sticky: canvas_error(). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "base/vec.h"

enum look {
    LOOK_PLAIN,
    LOOK_DIM,
    LOOK_BOLD,
    LOOK_GOOD,
    LOOK_DOUBTFUL,
    LOOK_BAD,
    LOOK_ACCENT,   /* labels */
    LOOK_JOB,      /* job names */
    LOOK_EVENT,    /* neutral events */
    LOOK_HEADING,  /* table heading */
    LOOK_SORTED,   /* heading of the sort column */
    LOOK_SELECTED, /* the selected row */
    LOOK_FOLLOWED, /* the selected row while it is followed */
    LOOK_TAGGED,
    LOOK_FOUND, /* a search match */
    LOOK_KEY,   /* a label in the bottom bar */
    LOOK_ALARM, /* urgent */
    LOOK_COUNT,
};

struct canvas_span {
    enum look look;
    size_t offset; /* in the row's bytes */
    size_t length;
    unsigned column;
};

struct canvas_row {
    struct text bytes;
    struct VEC(struct canvas_span) spans;
    unsigned width;  /* columns used */
    enum look whole; /* unless plain: replaces all looks of the row, up to the right edge */
};

/* The characters of drawings. */
struct glyphs {
    const char *bar[9];   /* a column of a bar, from empty to full */
    const char *spark[9]; /* a point of a sparkline, from low to high; [0]: unknown */
    const char *rest;     /* the empty part of a bar */
    const char *folded;
    const char *unfolded;
    const char *branch; /* in a tree: a child that has later siblings */
    const char *corner; /* the last child */
    const char *pipe;   /* a line past deeper rows */
    const char *blank;  /* no line */
    const char *line;   /* of a rule */
    const char *tag;
    const char *alarm;
    const char *dot;
    const char *up;
    const char *down;
    const char *playing;
    const char *paused;
    const char *cut; /* marks text that was cut */
};

struct canvas {
    unsigned rows;
    unsigned columns;
    bool is_ascii; /* see ascii_find(); other characters become ? */
    const struct glyphs *glyphs;
    struct canvas_row *items;
    unsigned capacity;
    int error;
};

/* Larger than any terminal in use. */
#define CANVAS_ROWS_MAX    1000
#define CANVAS_COLUMNS_MAX 2000

/* Makes the canvas empty and sets its size. Returns 0 or -ENOMEM. */
int canvas_begin(struct canvas *canvas, unsigned rows, unsigned columns, bool is_ascii);
void canvas_done(struct canvas *canvas);
int canvas_error(const struct canvas *canvas);

/* All functions below ignore rows outside the canvas. */

/* Appends trusted text: valid UTF-8 without control characters. */
void row_put(struct canvas *canvas, unsigned row, enum look look, const char *text);
void row_printf(struct canvas *canvas, unsigned row, enum look look, const char *format, ...)
    _printf_(4, 5);
/* Appends untrusted text, escaped and cut to `max_columns`. */
void row_visible(struct canvas *canvas, unsigned row, enum look look, const char *text,
                 size_t max_columns);
/* The same without the first `shift` columns. */
void row_shifted(struct canvas *canvas, unsigned row, enum look look, const char *text,
                 size_t shift);
void row_repeat(struct canvas *canvas, unsigned row, enum look look, const char *glyph,
                size_t times);
/* Appends blanks up to a column; nothing if the row is that wide already. */
void row_pad(struct canvas *canvas, unsigned row, enum look look, unsigned column);
/* Sets the look of the whole row. */
void row_whole(struct canvas *canvas, unsigned row, enum look look);
/* Empties the row. */
void row_clear(struct canvas *canvas, unsigned row);

/* Used columns. */
unsigned row_width(const struct canvas *canvas, unsigned row);
/* Free columns. */
unsigned row_left(const struct canvas *canvas, unsigned row);
