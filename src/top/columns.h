/* Chooses the columns of the table from the field table, as many as fit. Pure functions. */
#pragma once

#include "model/process.h"
#include "top/listing.h"

#define COLUMNS_SHOWN_MAX 16

struct shown_column {
    const struct field *field;
    const char *title;
    unsigned width;
};

/* The last column is the command, which takes the remaining width. */
struct shown_columns {
    struct shown_column items[COLUMNS_SHOWN_MAX];
    size_t count;
};

struct columns_request {
    unsigned width;           /* of the screen */
    bool with_jobs;           /* add a column for the job: in a plain list */
    bool with_gpu;            /* a process uses a GPU */
    const struct field *sort; /* is always shown, even on a narrow screen */
};

void columns_choose(const struct columns_request *request, struct shown_columns *ret);

#define COLUMNS_SORTABLE_MAX 32
/* Lists the fields that the table can be sorted by: all that have a title. Returns their number. */
size_t columns_sortable(const struct field *ret[static COLUMNS_SORTABLE_MAX]);
