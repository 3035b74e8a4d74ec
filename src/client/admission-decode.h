/* Decodes the daemon's answer to whether a job may start. */
#pragma once

#include <stddef.h>

#include "detect/pressure.h"

/* Reads {"allowed", "delay_seconds", "level", "reason"}. 0, -EBADMSG (it is not such an answer) or
 * -ENOMEM. */
int admission_decode(const char *json, size_t length, struct admission *ret);
