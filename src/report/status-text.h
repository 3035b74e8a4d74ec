/* The status of the daemon as text: identity, collector, cost, storage and losses. */
#pragma once

#include "model/daemon-status.h"
#include "report/style.h"

/* Writes the status. Times omit the date if it is that of `now`. Returns 0 or -ENOMEM, which is
 * also the buffer's error. */
int daemon_status_format(const struct daemon_status *status, double now,
                         const struct report_style *style, struct text *out);
