#include "fuzz.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "probe/proc-cmdline.h"

static void check(const char *text, size_t length, size_t capacity)
{
    assert(length < capacity);
    assert(strlen(text) == length);
    assert(utf8_valid(text, length));
}

/* The first byte is the room for the result: what comes out must fit it exactly. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    if (length == 0)
        return 0;
    size_t capacity = (size_t)bytes[0] + 1;
    const char *from = (const char *)bytes + 1;
    char *into = malloc(capacity), *name = strndup(from, length - 1);

    if (into && name) {
        size_t used = proc_cmdline_parse(from, length - 1, into, capacity);
        check(into, used, capacity);
        assert(used == 0 || into[used - 1] != ' ');
        check(into, proc_cmdline_from_name(name, into, capacity), capacity);
    }
    free(into);
    free(name);
    return 0;
}
