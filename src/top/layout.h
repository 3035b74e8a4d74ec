/* Where everything stands on a screen of some size: a pure function. From 80x24 up all of it is
 * there; below that, what matters least goes first, and nothing ever overlaps. */
#pragma once

#include <stdbool.h>

struct layout_wish {
    unsigned rows;
    unsigned columns;
    unsigned gpus;
    bool with_timeline;
    unsigned detail_rows; /* that there is something for; 0: no detail */
};

/* Rows of a part: from `at` on; none, if `count` is 0. */
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
    struct part timeline; /* likewise */
    struct part bar;      /* of keys, or a prompt */
};

struct layout layout_make(const struct layout_wish *wish);
