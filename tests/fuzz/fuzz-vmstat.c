#include "fuzz.h"

#include <assert.h>

#include "probe/sys-files.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    int64_t kills;

    if (vmstat_parse_oom_kills((const char *)bytes, length, &kills) == 0)
        assert(!int_is_known(kills) || kills >= 0);
    return 0;
}
