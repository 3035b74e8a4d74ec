/* Opens and reads the files of one process below a proc filesystem. */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Returns whether the error of a read below a proc filesystem means that the process, the thread or
 * its file is gone. */
static inline bool proc_file_is_gone(int error)
{
    return error == -ENOENT || error == -ESRCH;
}

/* Opens PID/`name` below `root_fd` with O_CLOEXEC and `flags`. Returns a descriptor that the caller
 * owns, or a negative errno. */
int proc_file_open(int root_fd, pid_t pid, const char *name, int flags);

/* Reads PID/`name` like fd_read_start(). Returns the length or a negative errno. */
ssize_t proc_file_read(int root_fd, pid_t pid, const char *name, char *into, size_t capacity);
