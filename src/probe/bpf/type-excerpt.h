/* An excerpt of the kernel's type information (BTF): its first types, with their numbers, up to the
 * last structure that the programs read. For each structure that they read, libbpf searches all
 * types. The kernel's own structures are near the beginning: in Linux 6.18, in the first tenth. In
 * another order the excerpt is longer. */
#pragma once

#include <stddef.h>

/* Makes an excerpt with the first structure of each of these names, at most 64. A reference to a
 * type that is not in it becomes one to void. The caller frees it. Returns 0, -ENOENT if a
 * structure is missing, -EBADMSG if the format is not known, or -ENOMEM. */
int type_excerpt_make(const void *types, size_t size, const char *const *names, size_t name_count,
                      void **ret, size_t *ret_size);

/* Does the same for a file that can be mapped (that of the kernel: since Linux 6.16). Returns the
 * descriptor of a file in memory, or a negative errno. */
int type_excerpt_open(const char *path, const char *const *names, size_t name_count);
