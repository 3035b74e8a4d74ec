/* The table that `strace -c` prints when it ends:
 *
 *     % time     seconds  usecs/call     calls    errors syscall
 *     ------ ----------- ----------- --------- --------- ----------------
 *      50.40    0.117862          49      2358           write
 *     ------ ----------- ----------- --------- --------- ----------------
 *     100.00    0.233860          49      4716           total
 *
 * with any columns in any order (`-U`), with a decimal point or comma, and with other output before
 * and after it. */
#pragma once

#include <stddef.h>

#include "model/syscall-profile.h"

/* Adds the tables to the profile; the times are the measured ones, wall time with `-w`. Returns 0,
 * -ENODATA (no table with names and calls) or -ENOMEM. Invalid lines are skipped. */
int strace_table_parse(const char *bytes, size_t length, struct syscall_profile *profile);
