/* What a fatal signal says about the end of a process, in one table. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Shells and `sonde run` end with this status if signal N ended their command. */
#define SIGNAL_STATUS(signal_num) (128 + (signal_num))

/* Returns whether the processor or the kernel raises the signal because of an error in the program
 * itself (SIGSEGV, SIGTRAP, …). */
bool signal_is_fault(int64_t signal_num);

/* Returns whether the signal kills without asking the program to end: faults, SIGABRT, SIGKILL. */
bool signal_is_crash(int64_t signal_num);

/* Returns whether the signal normally comes from another process or the terminal, so that its
 * sender is of interest: SIGKILL, SIGTERM, SIGINT, SIGHUP, SIGQUIT. */
bool signal_has_sender(int64_t signal_num);
