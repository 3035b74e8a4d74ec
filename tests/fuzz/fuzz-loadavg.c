#include "fuzz.h"

#include <assert.h>
#include <math.h>

#include "probe/sys-files.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct loadavg load;

    if (loadavg_parse((const char *)bytes, length, &load) < 0)
        return 0;
    assert(isfinite(load.avg_1) && load.avg_1 >= 0);
    assert(isfinite(load.avg_5) && load.avg_5 >= 0);
    assert(isfinite(load.avg_15) && load.avg_15 >= 0);
    return 0;
}
