#include "cli/print-summary.h"

#include <unistd.h>

#include "base/charset.h"
#include "base/fd-io.h"
#include "cli/output.h"
#include "report/short-summary.h"

void print_summary(const struct run_summary *summary, int events_error)
{
    _cleanup_text_ struct text out = {0};

    const struct report_style style = {.columns = SIZE_MAX, .is_ascii = !charset_is_utf8()};

    short_summary_format(summary, events_error, &style, &out);
    /* One write; a closed stderr is not an error. */
    if (text_error(&out) == 0)
        fd_write_all(STDERR_FILENO, out.bytes, out.length);
}
