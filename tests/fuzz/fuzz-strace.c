/* What strace prints, or whatever calls itself strace. */
#include "fuzz.h"

#include <assert.h>
#include <errno.h>

#include "trace/strace-messages.h"
#include "trace/strace-table.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct syscall_profile profile = {0};
    char line[64];

    int r = strace_table_parse((const char *)bytes, length, &profile);
    assert(r == 0 || r == -ENODATA || r == -ENOMEM);
    for (size_t i = 0; i < profile.sums.count; i++)
        assert(profile.sums.items[i].call < SYSCALL_COUNT);
    syscall_profile_done(&profile);
    strace_messages_parse((const char *)bytes, length, 916, line, sizeof(line));
    return 0;
}
