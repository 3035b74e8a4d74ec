#include "model/tally-parse.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

/* A double represents this many digits exactly, so the division by a power of ten is rounded only
 * once. */
#define DIGITS_MAX 15

struct plain {
    const char *name;
    size_t length;
    double value;
};

/* Scans a quoted name; returns false if it is not in the plain form. */
static bool scan_name(const char **cursor, struct plain *into)
{
    const char *at = *cursor;

    if (*at++ != '"')
        return false;
    into->name = at;
    while (*at >= ' ' && *at < 0x7f && *at != '"' && *at != '\\')
        at++;
    into->length = (size_t)(at - into->name);
    *cursor = at + 1;
    return *at == '"';
}

static bool scan_number(const char **cursor, double *ret)
{
    const char *at = *cursor;
    uint64_t digits = 0;
    double scale = 1;
    unsigned count = 0;

    if (at[0] == '0' && isdigit((unsigned char)at[1]))
        return false;
    for (; isdigit((unsigned char)*at) && count < DIGITS_MAX; at++, count++)
        digits = 10 * digits + (uint64_t)(*at - '0');
    if (!count)
        return false;
    if (*at == '.') {
        const char *point = at++;
        for (; isdigit((unsigned char)*at) && count < DIGITS_MAX; at++, count++, scale *= 10)
            digits = 10 * digits + (uint64_t)(*at - '0');
        if (at == point + 1)
            return false;
    }
    *cursor = at;
    *ret = (double)digits / scale;
    return *at == ',' || *at == '}'; /* otherwise the name continues in another form */
}

static bool is_new(const struct plain *items, size_t count, const struct plain *item)
{
    for (size_t i = 0; i < count; i++)
        if (items[i].length == item->length && memcmp(items[i].name, item->name, item->length) == 0)
            return false;
    return true;
}

/* Returns the number of items, or -1 if the text is not in the plain form. */
static int scan(const char *at, struct plain items[static TALLY_PLAIN_MAX])
{
    int count = 0;

    if (strcmp(at, "{}") == 0)
        return 0;
    if (*at++ != '{')
        return -1;
    for (;; at++) {
        struct plain *item = &items[count];
        if (count == TALLY_PLAIN_MAX || !scan_name(&at, item) || *at++ != ':' ||
            !scan_number(&at, &item->value) || !is_new(items, (size_t)count, item))
            return -1;
        count++;
        if (*at == '}')
            return at[1] ? -1 : count;
    }
}

int tally_parse_plain(const char *json, struct arena *arena, struct tally_list *ret)
{
    struct plain items[TALLY_PLAIN_MAX];

    int count = scan(json, items);
    if (count < 0)
        return 0;
    /* An empty list gets an address, because NULL means unknown. */
    struct tally *tallies = arena_alloc(arena, ((size_t)count + 1) * sizeof(*tallies));
    if (!tallies)
        return -ENOMEM;
    for (int i = 0; i < count; i++) {
        tallies[i] = (struct tally){.name = arena_copy(arena, items[i].name, items[i].length),
                                    .value = items[i].value};
        if (!tallies[i].name)
            return -ENOMEM;
    }
    *ret = (struct tally_list){.items = tallies, .count = (size_t)count};
    return 1;
}
