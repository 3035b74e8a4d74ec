#include "fuzz.h"

#include <assert.h>
#include <string.h>

#include "probe/proc-statm.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct proc_statm statm;

    if (proc_statm_parse((const char *)bytes, length, &statm) == 0)
        assert(memchr(bytes, '\n', length));
    return 0;
}
