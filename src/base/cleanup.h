/* Ownership as in systemd. When a variable that is marked _cleanup_(f) goes out of scope, f
 * releases it. TAKE_PTR and TAKE_FD return the value and reset the variable, so that f releases
 * nothing. */
#pragma once

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define _cleanup_(function) __attribute__((cleanup(function)))

#define TAKE(value, empty)                                                                         \
    ({                                                                                             \
        __typeof__(value) *take_from_ = &(value);                                                  \
        __typeof__(value) taken_ = *take_from_;                                                    \
        *take_from_ = (empty);                                                                     \
        taken_;                                                                                    \
    })
#define TAKE_PTR(ptr) TAKE(ptr, NULL)
#define TAKE_FD(fd)   TAKE(fd, -1)

/* Defines `<function>p`, which takes a pointer to the variable, as the cleanup attribute needs. */
#define DEFINE_CLEANUP(type, function)                                                             \
    static inline void function##p(type *variable)                                                 \
    {                                                                                              \
        if (*variable)                                                                             \
            function(*variable);                                                                   \
    }                                                                                              \
    struct swallow_semicolon_

static inline void freep(void *pointer_to_pointer)
{
    free(*(void **)pointer_to_pointer);
}

/* Closes a descriptor; a negative one is ignored. Preserves errno, so that the error of an earlier
 * call survives the cleanup. Returns -1, the new value of the variable. */
static inline int close_fd(int fd)
{
    if (fd >= 0) {
        int saved_errno = errno;
        close(fd);
        errno = saved_errno;
    }
    return -1;
}

static inline void close_fdp(int *fd)
{
    *fd = close_fd(*fd);
}

static inline void fclosep(FILE **file)
{
    if (*file)
        fclose(*file);
}

#define _cleanup_free_   _cleanup_(freep)
#define _cleanup_close_  _cleanup_(close_fdp)
#define _cleanup_fclose_ _cleanup_(fclosep)
