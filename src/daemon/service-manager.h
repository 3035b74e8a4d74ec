/* What a service manager such as systemd wants to be told: that the daemon is ready, alive,
 * reloading, stopping. Its protocol is a datagram to a socket that the environment names; nothing
 * happens where there is none. */
#pragma once

#include <stdint.h>

#include "base/macros.h"

void service_notify(const char *format, ...) _printf_(1, 2);
/* How often it wants to hear that we live; 0: not at all. */
uint64_t service_watchdog_ms(void);
