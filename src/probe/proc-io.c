#include "probe/proc-io.h"

#include "model/field.h"
#include "probe/lines.h"

int proc_io_parse(const char *bytes, size_t length, struct proc_io *ret)
{
    struct proc_io io = {.read_bytes = INT_UNKNOWN, .write_bytes = INT_UNKNOWN};
    const char *at = bytes;
    struct line line;

    while (lines_next(&at, bytes + length, &line)) {
        int r = 0;
        if (line_skip_key(&line, "read_bytes:"))
            r = line_scan_int(&line, &io.read_bytes);
        else if (line_skip_key(&line, "write_bytes:"))
            r = line_scan_int(&line, &io.write_bytes);
        if (r < 0)
            return r;
    }
    *ret = io;
    return 0;
}
