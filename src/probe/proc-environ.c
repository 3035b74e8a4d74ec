#include "probe/proc-environ.h"

#include <string.h>

static void match_variable(struct line variable, const struct text_list *names, struct line *values)
{
    const char *equals = memchr(variable.at, '=', (size_t)(variable.end - variable.at));
    if (!equals)
        return;

    size_t length = (size_t)(equals - variable.at);
    for (size_t i = 0; i < names->count; i++)
        if (!values[i].at && strncmp(names->items[i], variable.at, length) == 0 &&
            !names->items[i][length])
            values[i] = (struct line){.at = equals + 1, .end = variable.end};
}

void proc_environ_parse(const char *bytes, size_t length, const struct text_list *names,
                        struct line *ret_values)
{
    const char *at = bytes, *end = bytes + length, *nul;

    for (size_t i = 0; i < names->count; i++)
        ret_values[i] = (struct line){0};
    while (at < end && (nul = memchr(at, '\0', (size_t)(end - at)))) {
        match_variable((struct line){.at = at, .end = nul}, names, ret_values);
        at = nul + 1;
    }
}
