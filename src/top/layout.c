#include "top/layout.h"

#include "base/macros.h"

#define TABLE_MIN      4 /* rows that are worth a table */
#define METERS         3
#define GPUS_SHOWN_MAX 4
#define DETAIL_MIN     5
#define TIMELINE_MAX   9
#define TIMELINE_MIN   3

/* So many rows of what is left, if the table keeps its own. */
static unsigned take(unsigned *left, unsigned wanted, unsigned least, unsigned for_table)
{
    unsigned room = *left > for_table ? *left - for_table : 0;
    unsigned taken = MIN(wanted, room);

    if (taken < least)
        return 0;
    *left -= taken;
    return taken;
}

static struct part place(unsigned *at, unsigned count)
{
    struct part part = {.at = *at, .count = count};

    *at += count;
    return part;
}

struct layout layout_make(const struct layout_wish *wish)
{
    unsigned left = wish->rows, at = 0;
    unsigned gpus = MIN(wish->gpus, (unsigned)GPUS_SHOWN_MAX);
    unsigned table_min = wish->rows >= 20 ? TABLE_MIN + 3 : TABLE_MIN;

    if (!wish->rows || !wish->columns)
        return (struct layout){0};
    unsigned heading = take(&left, 1, 1, 1);
    unsigned bar = take(&left, 1, 1, 2);
    unsigned title = take(&left, 1, 1, 3);
    unsigned meters = take(&left, 2, 1, TABLE_MIN);
    unsigned detail = take(&left, wish->detail_rows, MIN(wish->detail_rows, (unsigned)DETAIL_MIN),
                           MIN((unsigned)TABLE_MIN, left / 3));
    if (meters == 2)
        meters += take(&left, METERS - 2, 1, table_min);
    if (meters == METERS)
        meters += take(&left, gpus, 1, table_min);
    unsigned timeline =
        wish->with_timeline
            ? take(&left, MIN(wish->rows / 4, (unsigned)TIMELINE_MAX), TIMELINE_MIN, table_min)
            : 0;

    struct layout layout = {.title = place(&at, title)};
    layout.meters = place(&at, meters);
    layout.heading = place(&at, heading);
    layout.table = place(&at, left);
    layout.detail = place(&at, detail);
    layout.timeline = place(&at, timeline);
    layout.bar = place(&at, bar);
    return layout;
}
