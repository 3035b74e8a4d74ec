#include "fuzz.h"

#include <assert.h>

#include "model/field.h"
#include "probe/proc-io.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct proc_io io;

    if (proc_io_parse((const char *)bytes, length, &io) < 0)
        return 0;
    assert(!int_is_known(io.read_bytes) || io.read_bytes >= 0);
    assert(!int_is_known(io.write_bytes) || io.write_bytes >= 0);
    return 0;
}
