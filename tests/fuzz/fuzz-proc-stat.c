#include "fuzz.h"

#include <assert.h>
#include <string.h>

#include "probe/proc-stat.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct proc_stat stat;

    if (proc_stat_parse((const char *)bytes, length, &stat) < 0)
        return 0;
    assert(memchr(stat.name, '\0', sizeof(stat.name)));
    assert(stat.pid >= 0 && stat.ppid >= 0 && stat.threads >= 0);
    assert(stat.state >= 'A' && stat.state <= 'z');
    return 0;
}
