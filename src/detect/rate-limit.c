#include "detect/rate-limit.h"

#include <stdio.h>
#include <string.h>

#include "model/field.h"

static void remove_expired(struct rate_limits *limits, uint64_t now_ns)
{
    for (size_t i = limits->count; i-- > 0;)
        if (limits->items[i].until_ns <= now_ns)
            limits->items[i] = limits->items[--limits->count];
}

static struct rate_limit *find_same(struct rate_limits *limits, int64_t uid, const char *name)
{
    for (size_t i = 0; i < limits->count; i++)
        if (limits->items[i].uid == uid && strcmp(limits->items[i].name, name) == 0)
            return &limits->items[i];
    return NULL;
}

static struct rate_limit *find_first_to_end(struct rate_limits *limits)
{
    struct rate_limit *first = &limits->items[0];

    for (size_t i = 1; i < limits->count; i++)
        if (limits->items[i].until_ns < first->until_ns)
            first = &limits->items[i];
    return first;
}

void rate_limits_set(struct rate_limits *limits, int64_t uid, const char *name, uint64_t until_ns,
                     uint64_t now_ns)
{
    remove_expired(limits, now_ns);
    struct rate_limit *limit = find_same(limits, uid, name);
    if (!limit)
        limit = limits->count < RATE_LIMITS_MAX ? &limits->items[limits->count++]
                                                : find_first_to_end(limits);
    limit->uid = uid;
    limit->until_ns = until_ns;
    snprintf(limit->name, sizeof(limit->name), "%s", name);
}

const struct rate_limit *rate_limits_find(const struct rate_limits *limits, int64_t uid,
                                          uint64_t now_ns)
{
    const struct rate_limit *longest = NULL;

    for (size_t i = 0; i < limits->count; i++) {
        const struct rate_limit *limit = &limits->items[i];
        bool holds = limit->until_ns > now_ns && (!int_is_known(limit->uid) || limit->uid == uid);
        if (holds && (!longest || limit->until_ns > longest->until_ns))
            longest = limit;
    }
    return longest;
}
