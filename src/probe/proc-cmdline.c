#include "probe/proc-cmdline.h"

#include <string.h>

#include "base/utf8.h"

size_t proc_cmdline_parse(const char *bytes, size_t length, char *into, size_t capacity)
{
    size_t used = utf8_clean(into, capacity, bytes, length);

    for (size_t i = 0; i < used; i++)
        if (into[i] == '\0')
            into[i] = ' ';
    while (used && into[used - 1] == ' ')
        used--;
    into[used] = '\0';
    return used;
}

size_t proc_cmdline_from_name(const char *name, char *into, size_t capacity)
{
    if (capacity < sizeof("[]")) {
        into[0] = '\0';
        return 0;
    }
    into[0] = '[';
    size_t used = 1 + utf8_clean(into + 1, capacity - 2, name, strlen(name));
    into[used++] = ']';
    into[used] = '\0';
    return used;
}
