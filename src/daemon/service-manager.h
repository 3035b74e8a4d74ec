/* Notifies a service manager such as systemd that the daemon is ready, alive, reloading or
 * stopping: a datagram to the socket that the environment names. Does nothing without one. */
#pragma once

#include <stdint.h>

#include "base/macros.h"

/* Sends a message such as "READY=1". Errors are ignored. */
void service_notify(const char *format, ...) _printf_(1, 2);
/* The interval of watchdog messages; 0: none are wanted. */
uint64_t service_watchdog_ms(void);
