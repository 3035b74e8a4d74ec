#include "fuzz.h"

#include <assert.h>

#include "probe/proc-limits.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    int64_t fd_limit;

    if (proc_limits_parse_fds((const char *)bytes, length, &fd_limit) == 0)
        assert(fd_limit >= 0);
    return 0;
}
