#include "top/curses-table.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/macros.h"

static struct curses loaded;

/* The address of a function is copied as the bytes that it is: ISO C has no cast for it. */
static const struct {
    const char *name;
    size_t offset;
} functions[] = {
#define ENTRY(name) {#name, offsetof(struct curses, name)},
    CURSES_FUNCTIONS(ENTRY)
#undef ENTRY
};

int curses_table_load(const struct curses **ret, const char **ret_reason)
{
    /* The number is that of the interface which the header describes. */
    void *library = dlopen("libncursesw.so.6", RTLD_NOW | RTLD_LOCAL);

    if (!library) {
        *ret_reason = dlerror();
        return -ENOENT;
    }
    for (size_t i = 0; i < ARRAY_SIZE(functions); i++) {
        void *function = dlsym(library, functions[i].name);
        if (!function) {
            *ret_reason = dlerror();
            dlclose(library);
            return -ENOENT;
        }
        memcpy((char *)&loaded + functions[i].offset, &function, sizeof(function));
    }
    *ret = &loaded;
    return 0;
}
