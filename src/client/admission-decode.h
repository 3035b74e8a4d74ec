/* Decodes the daemon's answer to whether a job may start. */
#pragma once

#include <stddef.h>

#include "detect/pressure.h"

/* Decodes {"allowed", "delay_seconds", "level", "reason"}; only "allowed" is required. Returns 0,
 * -EBADMSG (not such an object) or -ENOMEM. */
int admission_decode(const char *json, size_t length, struct admission *ret);
