#include "fuzz.h"

#include <assert.h>
#include <errno.h>

#include "probe/proc-syscall.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct thread_call call = {0};

    int r = proc_syscall_parse((const char *)bytes, length, &call);
    assert(r == 0 || r == -EBADMSG);
    assert(r < 0 || call.call == SYSCALL_NONE || call.call < SYSCALL_COUNT);
    return 0;
}
