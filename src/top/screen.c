#include "top/screen.h"

#include "top/draw.h"

struct layout screen_layout(const struct screen *screen, unsigned rows, unsigned columns)
{
    const struct layout_request request = {
        .rows = rows,
        .columns = columns,
        .gpus = screen->frame ? (unsigned)screen->frame->snapshot->gpus.count : 0,
        .with_timeline = screen->view->has_timeline,
        .detail_rows = screen->view->has_detail ? detail_rows(screen) : 0,
    };
    return layout_make(&request);
}

void screen_draw(const struct screen *screen, struct canvas *canvas)
{
    struct layout layout = screen_layout(screen, canvas->rows, canvas->columns);

    draw_title(screen, canvas, layout.title);
    draw_meters(screen, canvas, layout.meters);
    draw_table(screen, canvas, layout.heading, layout.table);
    draw_detail(screen, canvas, layout.detail);
    draw_timeline(screen, canvas, layout.timeline);
    draw_bar(screen, canvas, layout.bar);
    draw_panel(screen, canvas);
}
