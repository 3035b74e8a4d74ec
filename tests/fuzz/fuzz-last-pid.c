#include "fuzz.h"

#include <assert.h>
#include <errno.h>

#include "probe/last-pid.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    pid_t pid = -1;

    int r = last_pid_parse((const char *)bytes, length, &pid);
    assert(r == 0 || r == -EBADMSG);
    assert((r == 0) == (pid >= 0));
    return 0;
}
