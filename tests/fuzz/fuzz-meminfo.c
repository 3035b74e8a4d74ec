#include "fuzz.h"

#include <assert.h>

#include "probe/sys-files.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct meminfo meminfo;

    if (meminfo_parse((const char *)bytes, length, &meminfo) < 0)
        return 0;
    assert(!int_is_known(meminfo.total_bytes) || meminfo.total_bytes >= 0);
    assert(!int_is_known(meminfo.available_bytes) || meminfo.available_bytes >= 0);
    return 0;
}
