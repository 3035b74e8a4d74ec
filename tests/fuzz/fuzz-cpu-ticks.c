#include "fuzz.h"

#include <assert.h>
#include <string.h>

#include "probe/sys-files.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct cpu_ticks ticks;

    if (cpu_ticks_parse((const char *)bytes, length, &ticks) == 0)
        assert(memchr(bytes, '\n', length));
    return 0;
}
