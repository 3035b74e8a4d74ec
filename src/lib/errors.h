/* Words for the caller of the library. */
#pragma once

#include "base/macros.h"
#include "sonde/sonde.h"

/* Fills `error`, unless that is NULL, and returns `r`. */
int error_set(struct sonde_error *error, int r, const char *format, ...) _printf_(3, 4);
