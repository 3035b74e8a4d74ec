#include "fuzz.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"

static void check_scans(const char *start, const char *end)
{
    const char *at = start;
    uint64_t uint_value;
    int64_t int_value;

    int r = number_scan_uint(&at, end, &uint_value);
    assert(r == 0 || r == -EINVAL || r == -ERANGE);
    assert(r == 0 ? at > start && at <= end : at == start);

    at = start;
    r = number_scan_int(&at, end, &int_value);
    assert(r == 0 || r == -EINVAL || r == -ERANGE);
    assert(r == 0 ? at > start && at <= end : at == start);
}

static void check_parses(const char *text)
{
    char printed[32];
    int64_t int_value;
    double real_value;
    uint64_t ns;

    if (number_parse_int(text, &int_value) == 0 && strcmp(text, "-0") != 0) {
        snprintf(printed, sizeof(printed), "%" PRId64, int_value);
        assert(strcmp(printed, text) == 0);
        assert(number_parse_real(text, &real_value) == 0);
    }
    if (number_parse_real(text, &real_value) == 0)
        assert(isfinite(real_value));
    if (number_parse_duration(text, &ns) == 0)
        assert(ns <= INT64_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    char *text = strndup((const char *)bytes, length);

    check_scans((const char *)bytes, (const char *)bytes + length);
    if (text)
        check_parses(text);
    free(text);
    return 0;
}
