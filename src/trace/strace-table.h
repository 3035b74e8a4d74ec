/* The table that `strace -c` prints when it ends:
 *
 *     % time     seconds  usecs/call     calls    errors syscall
 *     ------ ----------- ----------- --------- --------- ----------------
 *      50.40    0.117862          49      2358           write
 *     ------ ----------- ----------- --------- --------- ----------------
 *     100.00    0.233860          49      4716           total
 *
 * in whatever columns and order its header names (`-U`), with a point or a comma for decimals, and
 * with whatever was said before it or after. */
#pragma once

#include <stddef.h>

#include "model/syscall-profile.h"

/* Adds what the tables say; the times are those that were measured, wall time with `-w`. 0;
 * -ENODATA: there is no table with names and calls; or -ENOMEM. Lines that make no sense are passed
 * over. */
int strace_table_parse(const char *bytes, size_t length, struct syscall_profile *profile);
