/* Names and numbers of system calls.
 *
 * A call is identified by its number. For a 32-bit program on a 64-bit kernel, which has different
 * numbers, SYSCALL_COMPAT is added. */
#pragma once

#define SYSCALL_COMPAT 1024
#define SYSCALL_OTHER  (SYSCALL_COMPAT - 1) /* a number out of range */
#define SYSCALL_COUNT  (2 * SYSCALL_COMPAT)
#define SYSCALL_NONE   0xffffffffU

#define SYSCALL_NAME_SIZE 40

/* Returns the name that strace uses: "openat", or "syscall_0x1d6" for a call that sonde does not
 * know. The result may point to `into`. */
const char *syscall_name(unsigned call, char into[static SYSCALL_NAME_SIZE]);
/* Returns the number of a name, the native one if it exists; SYSCALL_OTHER if the name is unknown.
 */
unsigned syscall_number(const char *name);
