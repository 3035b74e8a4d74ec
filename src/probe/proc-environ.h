/* PID/environ: `NAME=VALUE` entries, each followed by a NUL. */
#pragma once

#include "model/field.h"
#include "probe/lines.h"

/* Finds the variables `names` and returns their raw values in the same order; `at` is NULL for a
 * missing one. Like getenv(), uses the first entry of a name. A last entry without a NUL was cut by
 * the reader's buffer and is ignored. */
void proc_environ_parse(const char *bytes, size_t length, const struct text_list *names,
                        struct line *ret_values);
