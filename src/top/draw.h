/* The parts of the screen, for screen.c only. Each draws into the rows that the layout gives it. */
#pragma once

#include "top/screen.h"

void draw_title(const struct screen *screen, struct canvas *canvas, struct part part);
void draw_meters(const struct screen *screen, struct canvas *canvas, struct part part);
void draw_table(const struct screen *screen, struct canvas *canvas, struct part heading,
                struct part part);
void draw_detail(const struct screen *screen, struct canvas *canvas, struct part part);
/* The rows that the detail part needs, with its rule. */
unsigned detail_rows(const struct screen *screen);
void draw_timeline(const struct screen *screen, struct canvas *canvas, struct part part);
void draw_bar(const struct screen *screen, struct canvas *canvas, struct part part);
/* Draws over the other parts. */
void draw_panel(const struct screen *screen, struct canvas *canvas);

/* ---- shared ---- */

enum look look_of_tint(enum tint tint);
enum look look_of_severity(int severity);

/* "── events ─────": a rule with a title and, unless `end` is NULL, text at its end. */
void draw_rule(struct canvas *canvas, unsigned row, const char *word, const char *end);

/* A bar of `width` columns, filled to `ratio` (0 to 1; unknown: empty), with text at its right end.
 */
void draw_meter(struct canvas *canvas, unsigned row, unsigned width, double ratio, enum look look,
                const char *label);
/* Good, doubtful or bad, by the fill ratio. */
enum look look_of_ratio(double ratio);

/* The latest points of a series, the newest at the right, from 0 to `top`. */
void draw_spark(struct canvas *canvas, unsigned row, unsigned width, enum look look,
                const struct trail *trail, double (*point)(const struct trail *, unsigned),
                double top);
