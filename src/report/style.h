/* The layout of a report: width, colours, character set, labels and headings.
 *
 * Formatters write Unicode ("≥", "…"). Tables convert their cells to ASCII before they compute
 * widths; style_finish() converts the rest. Every exported formatter of a report calls it last. */
#pragma once

#include <stdbool.h>

#include "base/text.h"

struct report_style {
    size_t columns;   /* width of the terminal; SIZE_MAX: unlimited */
    bool with_colour; /* colours and bold headings */
    bool is_ascii;    /* write ">=" and "..." for "≥" and "…" */
};

enum tint {
    TINT_NONE,
    TINT_BOLD,
    TINT_GOOD,
    TINT_DOUBTFUL,
    TINT_BAD,
};

/* Returns the colour of an outcome: good for success, bad for failure, doubtful for anything else.
 */
enum tint outcome_tint(int outcome);

/* Begin and end a colour. */
void style_begin(const struct report_style *style, enum tint tint, struct text *out);
void style_end(const struct report_style *style, enum tint tint, struct text *out);

/* Converts the bytes of `out` from `start` on to ASCII if the style requires it. */
void style_finish(const struct report_style *style, size_t start, struct text *out);

/* Appends the start of a line: "  memory     ". */
void style_label(const char *label, struct text *out);

/* Appends the start of a section: a blank line and the heading, without a newline. */
void style_heading(const struct report_style *style, const char *heading, struct text *out);

/* Appends text of unknown origin with control characters escaped; "-" for NULL. */
void style_visible(const char *text, struct text *out);
/* The same in a colour. */
void style_tinted(const struct report_style *style, enum tint tint, const char *text,
                  struct text *out);
/* Appends a line of a label and text of unknown origin; nothing if the text is NULL. */
void style_line(const char *label, const char *text, struct text *out);
