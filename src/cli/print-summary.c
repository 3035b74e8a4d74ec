#include "cli/print-summary.h"

#include <unistd.h>

#include "base/fd-io.h"
#include "cli/output.h"
#include "report/short-summary.h"

void print_summary(const struct run_summary *summary, const char *no_events)
{
    _cleanup_text_ struct text out = {0};

    short_summary_format(summary, no_events, &out);
    output_adapt(&out);
    /* In one write, so that the lines stay together. A failure cannot be reported anywhere. */
    if (text_error(&out) == 0)
        fd_write_all(STDERR_FILENO, out.bytes, out.length);
}
