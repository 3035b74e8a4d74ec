/* Processes as a table for a terminal: columns from the field table, the longest one last.
 * Pure: a snapshot and a size in, text out. */
#pragma once

#include <stdbool.h>

#include "base/text.h"
#include "model/snapshot.h"

struct process_table_options {
    size_t columns; /* of the terminal; SIZE_MAX: no end */
    bool as_tree;   /* children below their parents, else by CPU, then memory */
    bool with_bold_heading;
};

/* 0 or -ENOMEM. */
int process_table_format(const struct snapshot *snapshot,
                         const struct process_table_options *options, struct text *out);
