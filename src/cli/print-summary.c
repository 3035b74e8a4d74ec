#include "cli/print-summary.h"

#include <unistd.h>

#include "base/fd-io.h"
#include "report/short-summary.h"

void print_summary(const struct run_summary *summary, const char *no_events)
{
    _cleanup_text_ struct text out = {0};

    short_summary_format(summary, no_events, &out);
    /* In one piece; if nobody reads it any more, there is nobody to tell. */
    if (text_error(&out) == 0)
        fd_write_all(STDERR_FILENO, out.bytes, out.length);
}
