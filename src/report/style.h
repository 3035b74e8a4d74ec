/* How a report is laid out: its width, its colours, its labels and headings. */
#pragma once

#include <stdbool.h>

#include "base/text.h"

struct report_style {
    size_t columns;   /* of the terminal; SIZE_MAX: no end */
    bool with_colour; /* and bold headings */
};

#define REPORT_PLAIN ((struct report_style){.columns = SIZE_MAX})

enum tint {
    TINT_NONE,
    TINT_BOLD,
    TINT_GOOD,
    TINT_DOUBTFUL,
    TINT_BAD,
};

/* What goes well, what does not, and what is not known yet. */
enum tint outcome_tint(int outcome);

void style_begin(const struct report_style *style, enum tint tint, struct text *out);
void style_end(const struct report_style *style, enum tint tint, struct text *out);

/* The start of a line: "  memory     ". */
void style_label(const char *label, struct text *out);

/* The start of a part: a blank line and its name, without the end of its line. */
void style_heading(const struct report_style *style, const char *heading, struct text *out);

/* Text from outside, made visible; "-" for NULL. */
void style_visible(const char *text, struct text *out);
