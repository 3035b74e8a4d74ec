/* Formats processes as a table for a terminal. The columns come from the field table; the last one
 * is the command, which is the longest. A pure function. */
#pragma once

#include <stdbool.h>

#include "base/text.h"
#include "model/snapshot.h"

struct process_table_options {
    size_t columns; /* of the terminal; SIZE_MAX: unlimited */
    bool as_tree;   /* children below their parents, else by CPU, then memory */
    bool with_bold_heading;
};

/* Appends the table. Returns 0 or -ENOMEM. */
int process_table_format(const struct snapshot *snapshot,
                         const struct process_table_options *options, struct text *out);
