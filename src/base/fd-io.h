/* Reading and writing whole files. Everything returns 0 or a length, or a negative errno. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

/* Reads from the start of an open file into `into`, at most `capacity - 1` bytes, and ends it with
 * a NUL. One pread for the kernel's generated files, which are made whole at the first read. */
ssize_t fd_read_start(int fd, char *into, size_t capacity);

/* The same for `path` below `dir_fd`, opened and closed here. */
ssize_t fd_read_file(int dir_fd, const char *path, char *into, size_t capacity);

int fd_write_all(int fd, const void *bytes, size_t length);

/* Opens `path` for writing, made with `mode` where it is missing. A symbolic link in a directory
 * that others can write is not followed (-ELOOP): whoever planted it chose the target. (One in a
 * directory of our own is, wherever it leads: it was put there by us.) A pipe that
 * nobody reads is not waited for (-ENXIO). */
int fd_open_output(const char *path, int flags, mode_t mode);
