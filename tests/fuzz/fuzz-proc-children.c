#include "fuzz.h"

#include <assert.h>
#include <errno.h>

#include "probe/proc-children.h"

/* Stops at a hundred children, to check that the parser stops, too. */
static int count_child(void *context, pid_t pid)
{
    size_t *count = context;

    assert(pid > 0);
    return ++*count == 100 ? -ECANCELED : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    size_t count = 0;

    int r = proc_children_parse((const char *)bytes, length, count_child, &count);
    assert(r == 0 || r == -EBADMSG || r == -ECANCELED);
    assert((r == -ECANCELED) == (count == 100));
    assert(count <= length / 2);
    return 0;
}
