#include <math.h>
#include <string.h>

#include "base/macros.h"
#include "model/field.h"
#include "top/draw.h"

#define EIGHTHS 8

enum look look_of_tint(enum tint tint)
{
    switch (tint) {
    case TINT_BOLD: return LOOK_BOLD;
    case TINT_GOOD: return LOOK_GOOD;
    case TINT_DOUBTFUL: return LOOK_DOUBTFUL;
    case TINT_BAD: return LOOK_BAD;
    default: return LOOK_PLAIN;
    }
}

enum look look_of_severity(int severity)
{
    return severity >= SEVERITY_HIGH     ? LOOK_BAD
           : severity >= SEVERITY_MEDIUM ? LOOK_DOUBTFUL
                                         : LOOK_PLAIN;
}

enum look look_of_ratio(double ratio)
{
    return ratio >= 0.9 ? LOOK_BAD : ratio >= 0.7 ? LOOK_DOUBTFUL : LOOK_GOOD;
}

void draw_rule(struct canvas *canvas, unsigned row, const char *word, const char *end)
{
    const struct glyphs *glyphs = canvas->glyphs;
    unsigned tail = end ? (unsigned)strlen(end) + 4 : 0;

    row_repeat(canvas, row, LOOK_DIM, glyphs->line, 2);
    row_printf(canvas, row, LOOK_ACCENT, " %s ", word);
    unsigned left = row_left(canvas, row);
    row_repeat(canvas, row, LOOK_DIM, glyphs->line, left > tail ? left - tail : left);
    if (end && left > tail) {
        row_printf(canvas, row, LOOK_DIM, " %s ", end);
        row_repeat(canvas, row, LOOK_DIM, glyphs->line, 2);
    }
}

/* Draws a bar with a precision of an eighth of a column, where the glyphs allow it. */
static void fill_bar(struct canvas *canvas, unsigned row, unsigned width, double ratio,
                     enum look look)
{
    const struct glyphs *glyphs = canvas->glyphs;
    unsigned eighths = (unsigned)lround(fmin(fmax(ratio, 0), 1) * width * EIGHTHS);
    unsigned full = eighths / EIGHTHS, part = eighths % EIGHTHS;

    if (ratio > 0 && !eighths) /* a small value differs from zero */
        part = 1;
    row_repeat(canvas, row, look, glyphs->bar[EIGHTHS], full);
    if (part && full < width) {
        row_put(canvas, row, look, glyphs->bar[part]);
        full++;
    }
    row_repeat(canvas, row, LOOK_DIM, glyphs->rest, width - full);
}

void draw_meter(struct canvas *canvas, unsigned row, unsigned width, double ratio, enum look look,
                const char *label)
{
    unsigned label_width = (unsigned)strlen(label) + 3; /* ASCII */

    if (label_width + 4 <= width) {
        row_put(canvas, row, LOOK_DIM, "[");
        fill_bar(canvas, row, width - label_width, real_is_known(ratio) ? ratio : 0, look);
        row_printf(canvas, row, LOOK_BOLD, " %s", label);
        row_put(canvas, row, LOOK_DIM, "]");
    } else {
        row_put(canvas, row, LOOK_BOLD, label);
    }
}

void draw_spark(struct canvas *canvas, unsigned row, unsigned width, enum look look,
                const struct trail *trail, double (*point)(const struct trail *, unsigned),
                double top)
{
    width = MIN(width, (unsigned)TRAIL_POINTS);
    for (unsigned i = width; i-- > 0;) {
        double value = point(trail, i);
        long height = !real_is_known(value) ? 0
                      : top > 0             ? 1 + lround(fmin(value / top, 1) * (EIGHTHS - 1))
                                            : 1;
        row_put(canvas, row, look, canvas->glyphs->spark[height]);
    }
}
