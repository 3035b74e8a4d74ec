#include "fuzz.h"

#include <assert.h>

#include "model/field.h"
#include "probe/proc-status.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct proc_status status;

    if (proc_status_parse((const char *)bytes, length, &status) < 0)
        return 0;
    assert(!int_is_known(status.uid) || (status.uid >= 0 && status.uid <= UINT32_MAX));
    assert(!int_is_known(status.peak_rss_bytes) || status.peak_rss_bytes >= 0);
    assert(status.peak_rss_bytes % 1024 == 0);
    return 0;
}
