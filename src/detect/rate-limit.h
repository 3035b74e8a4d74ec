/* Rate limits that clients report: a service that jobs depend on rejects requests for some time.
 * Pure: the caller passes the time. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Number of limits at once. If there are more, the one that ends first is evicted. */
#define RATE_LIMITS_MAX           64
#define RATE_LIMIT_NAME_MAX_BYTES 128

struct rate_limit {
    uint64_t until_ns; /* monotonic */
    int64_t uid;       /* of the user; INT_UNKNOWN: all users */
    char name[RATE_LIMIT_NAME_MAX_BYTES + 1];
};

/* Zero-initialised is empty and valid. */
struct rate_limits {
    struct rate_limit items[RATE_LIMITS_MAX];
    size_t count;
};

/* Adds a limit. Replaces the limit of the same name and user, even with a shorter one, so that it
 * can be cancelled. */
void rate_limits_set(struct rate_limits *limits, int64_t uid, const char *name, uint64_t until_ns,
                     uint64_t now_ns);

/* Returns the limit that lasts longest for that user (INT_UNKNOWN: limits for all users only), or
 * NULL if none applies. */
const struct rate_limit *rate_limits_find(const struct rate_limits *limits, int64_t uid,
                                          uint64_t now_ns);
