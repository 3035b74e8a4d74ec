/* The columns of the table, out of the field table: as many as there is room for. Pure. */
#pragma once

#include "model/process.h"
#include "top/listing.h"

#define COLUMNS_SHOWN_MAX 16

struct shown_column {
    const struct field *field;
    const char *title;
    unsigned width;
};

/* The last one is the command, and takes what is left. */
struct shown_columns {
    struct shown_column items[COLUMNS_SHOWN_MAX];
    size_t count;
};

struct columns_wish {
    unsigned width;           /* of the screen */
    bool with_jobs;           /* a column tells the job: in a plain list */
    bool with_gpu;            /* some process uses one */
    const struct field *sort; /* stays, however narrow it gets */
};

void columns_choose(const struct columns_wish *wish, struct shown_columns *ret);

/* Fields that can be sorted by: all that have a title. How many; `ret` has room for
 * COLUMNS_SORTABLE_MAX. */
#define COLUMNS_SORTABLE_MAX 32
size_t columns_sortable(const struct field *ret[static COLUMNS_SORTABLE_MAX]);
