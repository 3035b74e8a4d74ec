/* Forwards the libbpf functions that sonde and its skeleton call to the loaded library. They must
 * not be called before libbpf_load(). */
#include "probe/bpf/libbpf-loader.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/macros.h"

#define LIBRARY "libbpf.so.1"

/* result, name, parameters, arguments */
#define FUNCTIONS(X)                                                                               \
    X(libbpf_print_fn_t, libbpf_set_print, (libbpf_print_fn_t a), (a))                             \
    X(int, libbpf_num_possible_cpus, (void), ())                                                   \
    X(int, bpf_object__open_skeleton,                                                              \
      (struct bpf_object_skeleton * a, const struct bpf_object_open_opts *b), (a, b))              \
    X(int, bpf_object__load_skeleton, (struct bpf_object_skeleton * a), (a))                       \
    X(int, bpf_object__attach_skeleton, (struct bpf_object_skeleton * a), (a))                     \
    X(void, bpf_object__destroy_skeleton, (struct bpf_object_skeleton * a), (a))                   \
    X(int, bpf_program__set_autoload, (struct bpf_program * a, bool b), (a, b))                    \
    X(void, bpf_program__set_autoattach, (struct bpf_program * a, bool b), (a, b))                 \
    X(int, bpf_program__fd, (const struct bpf_program *a), (a))                                    \
    X(struct bpf_link *, bpf_program__attach, (const struct bpf_program *a), (a))                  \
    X(int, bpf_link__destroy, (struct bpf_link * a), (a))                                          \
    X(int, bpf_map__fd, (const struct bpf_map *a), (a))                                            \
    X(int, bpf_map__set_autocreate, (struct bpf_map * a, bool b), (a, b))                          \
    X(int, bpf_map_update_elem, (int a, const void *b, const void *c, __u64 d), (a, b, c, d))      \
    X(int, bpf_map_get_next_key, (int a, const void *b, void *c), (a, b, c))                       \
    X(int, bpf_map_delete_elem, (int a, const void *b), (a, b))                                    \
    X(int, bpf_map_lookup_batch,                                                                   \
      (int a, void *b, void *c, void *d, void *e, __u32 *f, const struct bpf_map_batch_opts *g),   \
      (a, b, c, d, e, f, g))                                                                       \
    X(int, bpf_map_lookup_and_delete_batch,                                                        \
      (int a, void *b, void *c, void *d, void *e, __u32 *f, const struct bpf_map_batch_opts *g),   \
      (a, b, c, d, e, f, g))                                                                       \
    X(int, bpf_prog_test_run_opts, (int a, struct bpf_test_run_opts *b), (a, b))                   \
    X(struct ring_buffer *, ring_buffer__new,                                                      \
      (int a, ring_buffer_sample_fn b, void *c, const struct ring_buffer_opts *d), (a, b, c, d))   \
    X(int, ring_buffer__consume, (struct ring_buffer * a), (a))                                    \
    X(int, ring_buffer__epoll_fd, (const struct ring_buffer *a), (a))                              \
    X(void, ring_buffer__free, (struct ring_buffer * a), (a))

#define DECLARE(result, name, parameters, arguments) static result(*loaded_##name) parameters;
FUNCTIONS(DECLARE)

#define FORWARD(result, name, parameters, arguments)                                               \
    result name parameters                                                                         \
    {                                                                                              \
        return loaded_##name arguments;                                                            \
    }
FUNCTIONS(FORWARD)

int libbpf_load(char *reason, size_t reason_size)
{
    static void *library;

    if (library)
        return 0;
    void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        const char *error = dlerror();
        snprintf(reason, reason_size, LIBRARY " cannot be loaded (Debian package: libbpf1): %s",
                 error ? error : "unknown error");
        return -ENOENT;
    }

#define FIND(result, name, parameters, arguments) {(void **)&loaded_##name, #name},
    const struct {
        void **place;
        const char *name;
    } functions[] = {FUNCTIONS(FIND)};
    for (size_t i = 0; i < ARRAY_SIZE(functions); i++) {
        *functions[i].place = dlsym(handle, functions[i].name);
        if (!*functions[i].place) {
            snprintf(reason, reason_size, LIBRARY " is too old: it has no function %s",
                     functions[i].name);
            dlclose(handle);
            return -ENOENT;
        }
    }
    library = handle;
    return 0;
}
