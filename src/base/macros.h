/* Macros for all folders. None allocates or evaluates an argument twice. */
#pragma once

#include <stddef.h>
#include <sys/param.h>

/* <sys/param.h> defines versions that evaluate an argument twice. */
#undef MIN
#undef MAX

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

/* The value of a macro as text. */
#define TEXT_OF(macro)   TEXT_OF_(macro)
#define TEXT_OF_(tokens) #tokens

#define MIN(a, b)                                                                                  \
    ({                                                                                             \
        __typeof__(a) min_a_ = (a);                                                                \
        __typeof__(b) min_b_ = (b);                                                                \
        min_a_ < min_b_ ? min_a_ : min_b_;                                                         \
    })
#define MAX(a, b)                                                                                  \
    ({                                                                                             \
        __typeof__(a) max_a_ = (a);                                                                \
        __typeof__(b) max_b_ = (b);                                                                \
        max_a_ > max_b_ ? max_a_ : max_b_;                                                         \
    })

#define _unused_                        __attribute__((unused))
#define _printf_(format_arg, first_arg) __attribute__((format(printf, format_arg, first_arg)))
