/* PID/environ: `NAME=VALUE`, a NUL after each. */
#pragma once

#include "model/field.h"
#include "probe/lines.h"

/* Finds the variables `names`: the bytes of each value, as they are, in their order; `at` is NULL
 * for one that is not there. As getenv() has it, the first of a name counts. A last one without a
 * NUL was cut by the reader's buffer, and is passed over. */
void proc_environ_parse(const char *bytes, size_t length, const struct text_list *names,
                        struct line *ret_values);
