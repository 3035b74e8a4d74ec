#include "probe/proc-pss.h"

#include <errno.h>

#include "model/field.h"
#include "probe/lines.h"

int proc_pss_parse(const char *bytes, size_t length, struct proc_pss *ret)
{
    struct proc_pss pss = {.total_bytes = INT_UNKNOWN, .anon_bytes = INT_UNKNOWN};
    const char *at = bytes;
    struct line line;

    while (lines_next(&at, bytes + length, &line)) {
        int r = 0;
        if (line_skip_key(&line, "Pss:"))
            r = line_scan_kb(&line, &pss.total_bytes);
        else if (line_skip_key(&line, "Pss_Anon:"))
            r = line_scan_kb(&line, &pss.anon_bytes);
        if (r < 0)
            return r;
    }
    if (!int_is_known(pss.total_bytes) || !int_is_known(pss.anon_bytes) ||
        pss.anon_bytes > pss.total_bytes)
        return -EBADMSG;
    *ret = pss;
    return 0;
}
