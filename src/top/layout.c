#include "top/layout.h"

#include "base/macros.h"

#define TABLE_MIN      4 /* the least useful number of rows of the table */
#define METERS         3
#define GPUS_SHOWN_MAX 4
#define DETAIL_MIN     5
#define TIMELINE_MAX   9
#define TIMELINE_MIN   3

/* Takes up to `wanted` rows from those that are left, but leaves `for_table` rows. Returns the
 * number of rows, or 0 if it would be less than `least`. */
static unsigned reserve_rows(unsigned *left, unsigned wanted, unsigned least, unsigned for_table)
{
    unsigned room = *left > for_table ? *left - for_table : 0;
    unsigned granted = MIN(wanted, room);

    if (granted < least)
        return 0;
    *left -= granted;
    return granted;
}

static struct part next_part(unsigned *at, unsigned count)
{
    struct part part = {.at = *at, .count = count};

    *at += count;
    return part;
}

struct layout layout_make(const struct layout_request *request)
{
    unsigned left = request->rows, at = 0;
    unsigned gpus = MIN(request->gpus, (unsigned)GPUS_SHOWN_MAX);
    unsigned table_min = request->rows >= 20 ? TABLE_MIN + 3 : TABLE_MIN;

    if (!request->rows || !request->columns)
        return (struct layout){0};
    unsigned heading = reserve_rows(&left, 1, 1, 1);
    unsigned bar = reserve_rows(&left, 1, 1, 2);
    unsigned title = reserve_rows(&left, 1, 1, 3);
    unsigned meters = reserve_rows(&left, 2, 1, TABLE_MIN);
    unsigned detail =
        reserve_rows(&left, request->detail_rows, MIN(request->detail_rows, (unsigned)DETAIL_MIN),
                     MIN((unsigned)TABLE_MIN, left / 3));
    if (meters == 2)
        meters += reserve_rows(&left, METERS - 2, 1, table_min);
    if (meters == METERS)
        meters += reserve_rows(&left, gpus, 1, table_min);
    unsigned timeline = request->with_timeline
                            ? reserve_rows(&left, MIN(request->rows / 4, (unsigned)TIMELINE_MAX),
                                           TIMELINE_MIN, table_min)
                            : 0;

    struct layout layout = {.title = next_part(&at, title)};
    layout.meters = next_part(&at, meters);
    layout.heading = next_part(&at, heading);
    layout.table = next_part(&at, left);
    layout.detail = next_part(&at, detail);
    layout.timeline = next_part(&at, timeline);
    layout.bar = next_part(&at, bar);
    return layout;
}
