/* Arithmetic with values that may be unknown. */
#pragma once

#include "model/field.h"

/* Returns the smaller of two values; an unknown value is ignored. For reals, fmin() does the same.
 */
static inline int64_t known_min(int64_t a, int64_t b)
{
    if (!int_is_known(a))
        return b;
    return int_is_known(b) && b < a ? b : a;
}
