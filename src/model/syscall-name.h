/* System calls by their numbers.
 *
 * A call is its number; that of a 32-bit program on a 64-bit kernel, which numbers them otherwise,
 * is its number and SYSCALL_COMPAT. */
#pragma once

#define SYSCALL_COMPAT 1024
#define SYSCALL_OTHER  (SYSCALL_COMPAT - 1) /* a number that is out of range */
#define SYSCALL_COUNT  (2 * SYSCALL_COMPAT)
#define SYSCALL_NONE   0xffffffffU

#define SYSCALL_NAME_SIZE 40

/* As strace calls it: "openat", or "syscall_0x1d6" for one that is newer than sonde. `into` may be
 * used for it. */
const char *syscall_name(unsigned call, char into[static SYSCALL_NAME_SIZE]);
/* The other way round: native, if there is one of that name; SYSCALL_OTHER if nobody knows it. */
unsigned syscall_number(const char *name);
