/* The output of strace, or of a program named strace. */
#include "fuzz.h"

#include <assert.h>
#include <errno.h>

#include "trace/strace-output.h"
#include "trace/strace-table.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct syscall_profile profile = {0};
    struct strace_output output = {.pid = 916};

    int r = strace_table_parse((const char *)bytes, length, &profile);
    assert(r == 0 || r == -ENODATA || r == -ENOMEM);
    for (size_t i = 0; i < profile.sums.count; i++)
        assert(profile.sums.items[i].call < SYSCALL_COUNT);
    syscall_profile_done(&profile);
    for (size_t at = 0, piece; at < length; at += piece) {
        piece = at % 31 < length - at ? at % 31 + 1 : length - at;
        strace_output_add(&output, (const char *)bytes + at, piece);
    }
    struct syscall_profile in_pieces = {0};
    r = strace_output_parse(&output, &in_pieces);
    assert(r == 0 || r == -ENODATA || r == -ENOMEM);
    assert(output.table.length <= STRACE_TABLE_MAX_BYTES);
    syscall_profile_done(&in_pieces);
    strace_output_done(&output);
    return 0;
}
