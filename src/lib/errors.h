/* Error messages for the caller of the library. */
#pragma once

#include <sys/types.h>

#include "base/macros.h"
#include "sonde/sonde.h"

/* Formats the message of `error`, unless that is NULL, and returns `r`. */
int error_set(struct sonde_error *error, int r, const char *format, ...) _printf_(3, 4);

/* The same, with a standard message for an error with the process `pid`. */
int error_explain(struct sonde_error *error, int r, pid_t pid);
