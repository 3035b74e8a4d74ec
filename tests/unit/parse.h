/* For the tests of parsers that take bytes and a length. */
#pragma once

#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Parses a copy of exactly the text's size, so that the address sanitizer detects every read past
 * its end. */
#define PARSE_BYTES(parse, text, length, ret)                                                      \
    ({                                                                                             \
        size_t parse_length_ = (length);                                                           \
        char *parse_copy_ = malloc(parse_length_ + !parse_length_);                                \
        assert_non_null(parse_copy_);                                                              \
        memcpy(parse_copy_, (text), parse_length_);                                                \
        int parse_result_ = (parse)(parse_copy_, parse_length_, (ret));                            \
        free(parse_copy_);                                                                         \
        parse_result_;                                                                             \
    })
#define PARSE(parse, text, ret) PARSE_BYTES(parse, text, strlen(text), ret)

#define assert_bad(parse, text, ret) assert_int_equal(PARSE(parse, text, ret), -EBADMSG)

/* Two reals that must be the same to the last bit. */
#define assert_real(a, b) assert_true((a) == (b))
