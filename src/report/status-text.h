/* How the daemon is doing, as text: what it is, what it does, what it costs, and whatever is not as
 * it should be. */
#pragma once

#include "model/daemon-status.h"
#include "report/style.h"

/* Times of the day of `now` stand without a date. Errors are the buffer's; 0 or -ENOMEM. */
int daemon_status_format(const struct daemon_status *status, double now,
                         const struct report_style *style, struct text *out);
