#include "probe/proc-statm.h"

#include <errno.h>

#include "probe/lines.h"

int proc_statm_parse(const char *bytes, size_t length, struct proc_statm *ret)
{
    struct proc_statm statm;
    struct line line;

    if (lines_first(bytes, length, &line) < 0 || line_scan_uint(&line, &statm.size_pages) < 0 ||
        line_scan_uint(&line, &statm.resident_pages) < 0 ||
        line_scan_uint(&line, &statm.shared_pages) < 0)
        return -EBADMSG;
    *ret = statm;
    return 0;
}
