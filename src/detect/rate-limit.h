/* Rate limits that were reported: services that jobs depend on refuse more for now. Pure: the time
 * comes in. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Of different names or users at once; beyond, the one that ends first is forgotten. */
#define RATE_LIMITS_MAX           64
#define RATE_LIMIT_NAME_MAX_BYTES 128

struct rate_limit {
    uint64_t until_ns; /* monotonic */
    int64_t uid;       /* whom it holds for; INT_UNKNOWN: everyone */
    char name[RATE_LIMIT_NAME_MAX_BYTES + 1];
};

/* Zero-initialised is empty and valid. */
struct rate_limits {
    struct rate_limit items[RATE_LIMITS_MAX];
    size_t count;
};

/* One of the same name and user is replaced, by a shorter one too: so it can be taken back. */
void rate_limits_note(struct rate_limits *limits, int64_t uid, const char *name, uint64_t until_ns,
                      uint64_t now_ns);

/* The one that holds longest for that user (INT_UNKNOWN: for everyone); NULL: none does. */
const struct rate_limit *rate_limits_find(const struct rate_limits *limits, int64_t uid,
                                          uint64_t now_ns);
