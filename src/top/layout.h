/* Divides the rows of a screen among its parts. From 80x24 on, all parts are shown; on a smaller
 * screen, less important parts are omitted. Parts never overlap. A pure function. */
#pragma once

#include <stdbool.h>

struct layout_request {
    unsigned rows;
    unsigned columns;
    unsigned gpus;
    bool with_timeline;
    unsigned detail_rows; /* rows that the details need; 0: they are not shown */
};

/* The rows of a part: `count` rows from row `at` on; 0: the part is not shown. */
struct part {
    unsigned at;
    unsigned count;
};

struct layout {
    struct part title;
    struct part meters;
    struct part heading;
    struct part table;
    struct part detail;   /* its first row is a rule */
    struct part timeline; /* its first row is a rule */
    struct part bar;      /* the keys, a message or a prompt */
};

struct layout layout_make(const struct layout_request *request);
