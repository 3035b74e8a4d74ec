#include <string.h>

#include "report/figures.h"
#include "top/draw.h"

#define WORD_COLUMNS 7 /* "anomaly" */
#define JOB_COLUMNS  14

static enum look look_of(const struct headline *headline)
{
    /* LOOK_PLAIN: that of the tint. */
    static const enum look looks[EVENT_NAME_COUNT] = {
        [EVENT_NAME_SPAWN] = LOOK_DIM,        [EVENT_NAME_EXEC] = LOOK_EVENT,
        [EVENT_NAME_EXIT] = LOOK_GOOD,        [EVENT_NAME_SIGNAL] = LOOK_DOUBTFUL,
        [EVENT_NAME_KILL] = LOOK_BAD,         [EVENT_NAME_OOM] = LOOK_ALARM,
        [EVENT_NAME_JOB_STARTED] = LOOK_JOB,  [EVENT_NAME_JOB_PROGRESS] = LOOK_EVENT,
        [EVENT_NAME_STEP_STARTED] = LOOK_JOB,
    };

    if (headline->tint == TINT_BAD) /* a failed exit */
        return LOOK_BAD;
    if (looks[headline->name] != LOOK_PLAIN)
        return looks[headline->name];
    return look_of_tint(headline->tint);
}

static void put_line(const struct screen *screen, const struct headline *headline,
                     struct canvas *canvas, unsigned row)
{
    struct human time, pid;
    enum look look = look_of(headline);

    row_printf(canvas, row, LOOK_DIM, "%s ", figure_clock(&time, headline->timestamp, screen->now));
    row_visible(canvas, row, look, headline->label, SIZE_MAX);
    row_pad(canvas, row, LOOK_PLAIN, (unsigned)strlen(time.text) + 1 + WORD_COLUMNS);
    row_printf(canvas, row, LOOK_PLAIN, " %7s ", figure_pid(&pid, headline->pid));
    unsigned at = row_width(canvas, row);
    row_visible(canvas, row, LOOK_JOB, headline->job_id ? headline->job_id : "-", JOB_COLUMNS);
    row_pad(canvas, row, LOOK_PLAIN, at + JOB_COLUMNS + 1);
    row_visible(canvas, row, look == LOOK_DIM || look == LOOK_GOOD ? LOOK_PLAIN : look,
                headline->text, SIZE_MAX);
}

void draw_timeline(const struct screen *screen, struct canvas *canvas, struct part part)
{
    const struct timeline *timeline = screen->timeline;

    if (!part.count)
        return;
    draw_rule(canvas, part.at, "events", NULL);
    size_t shown = MIN(timeline->items.count, (size_t)part.count - 1);
    for (size_t i = 0; i < shown; i++)
        put_line(screen, timeline->items.items[timeline->items.count - shown + i], canvas,
                 part.at + 1 + (unsigned)i);
    if (!shown && part.count > 1)
        row_put(canvas, part.at + 1, LOOK_DIM,
                "  process starts, exits, signals and anomalies of jobs appear here");
}
