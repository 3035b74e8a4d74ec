/* Ownership in the manner of systemd: a variable marked _cleanup_(f) is released by f when it goes
 * out of scope; TAKE_PTR and TAKE_FD hand its value on and leave nothing behind to release. */
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

/* Defines `<function>p`, which takes a pointer to the variable, as the cleanup attribute wants. */
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

/* Keeps errno, so that a failed call's reason survives the clean-up after it. */
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
