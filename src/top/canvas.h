/* What is to be seen, before there is any terminal: rows of text, each piece with a look. Pure, so
 * that tests read screens as a user does.
 *
 * A row is written from left to right and cut at the right edge. Widths are those of the
 * characters; what comes from processes goes through row_visible(), so that no control character
 * gets in. Errors stick: canvas_error(). */
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
    LOOK_JOB,      /* names of jobs */
    LOOK_NEWS,     /* what merely happened */
    LOOK_HEADING,  /* of a table */
    LOOK_SORTED,   /* in it: the column that it is sorted by */
    LOOK_SELECTED, /* the row that keys are about */
    LOOK_FOLLOWED, /* the same, while it is followed */
    LOOK_TAGGED,
    LOOK_FOUND, /* what was searched for */
    LOOK_KEY,   /* at the bottom: what a key does */
    LOOK_ALARM, /* what must not be overlooked */
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
    enum look whole; /* other than plain: that of the whole row, to the right edge */
};

/* What the drawings are made of. */
struct glyphs {
    const char *bar[9];   /* from empty to full, for bars of one row */
    const char *spark[9]; /* from nothing to all, for sparklines; [0] is unknown */
    const char *rest;     /* of a bar */
    const char *folded;
    const char *unfolded;
    const char *branch; /* of a tree: one of several, the last, the line past, nothing */
    const char *corner;
    const char *pipe;
    const char *blank;
    const char *line; /* of a rule */
    const char *tag;
    const char *alarm;
    const char *dot;
    const char *up;
    const char *down;
    const char *playing;
    const char *paused;
    const char *cut; /* where text goes on beyond the edge */
};

struct canvas {
    unsigned rows;
    unsigned columns;
    bool is_ascii; /* other characters become ? */
    const struct glyphs *glyphs;
    struct canvas_row *items;
    unsigned capacity;
    int error;
};

/* A cell more would be a terminal that nobody looks at. */
#define CANVAS_ROWS_MAX    1000
#define CANVAS_COLUMNS_MAX 2000

/* Empty, of that size. 0 or -ENOMEM. */
int canvas_begin(struct canvas *canvas, unsigned rows, unsigned columns, bool is_ascii);
void canvas_done(struct canvas *canvas);
int canvas_error(const struct canvas *canvas);

/* All of these pass over rows that are not there. */

/* Text of our own: valid UTF-8 without control characters. */
void row_put(struct canvas *canvas, unsigned row, enum look look, const char *text);
void row_printf(struct canvas *canvas, unsigned row, enum look look, const char *format, ...)
    _printf_(4, 5);
/* Text of others, made visible and cut to `max_columns`. */
void row_visible(struct canvas *canvas, unsigned row, enum look look, const char *text,
                 size_t max_columns);
/* The same, the first `shift` columns left out. */
void row_shifted(struct canvas *canvas, unsigned row, enum look look, const char *text,
                 size_t shift);
void row_repeat(struct canvas *canvas, unsigned row, enum look look, const char *glyph,
                size_t times);
/* Blanks up to a column; nothing, if that is reached. */
void row_pad(struct canvas *canvas, unsigned row, enum look look, unsigned column);
void row_whole(struct canvas *canvas, unsigned row, enum look look);
/* Forgets what is in the row. */
void row_clear(struct canvas *canvas, unsigned row);

unsigned row_width(const struct canvas *canvas, unsigned row);
/* Columns that are left in it. */
unsigned row_left(const struct canvas *canvas, unsigned row);
/* The text of a row, for tests and captures. */
const char *row_text(const struct canvas *canvas, unsigned row);
