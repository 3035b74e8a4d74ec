#include "top/curses-loader.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/macros.h"

#include <term.h> /* last: it defines macros with short names, such as `lines` */

static struct curses loaded;

/* dlsym() returns an object pointer; its bytes are copied, because ISO C has no cast to a function
 * pointer. */
static const struct {
    const char *name;
    size_t offset;
} functions[] = {
#define ENTRY(name) {#name, offsetof(struct curses, name)},
    CURSES_FUNCTIONS(ENTRY)
#undef ENTRY
};

/* Stores the address of a function of the library in the function pointer at `ret_function`. */
static int find(void *library, const char *name, void *ret_function, const char **ret_reason)
{
    void *function = dlsym(library, name);

    if (!function) {
        *ret_reason = dlerror();
        return -ENOENT;
    }
    memcpy(ret_function, &function, sizeof(function));
    return 0;
}

/* Checks the terminal before newterm(), which does not clean up after a terminal that it cannot
 * use.
 */
static int check_terminal(void *library, const char **ret_reason)
{
    char cursor_address_name[] = "cup";
    __typeof__(setupterm) *set_up = NULL;
    __typeof__(tigetstr) *get = NULL;
    __typeof__(set_curterm) *set_current = NULL;
    __typeof__(del_curterm) *delete = NULL;
    int found = 0;

    int r = find(library, "setupterm", &set_up, ret_reason);
    if (r == 0)
        r = find(library, "tigetstr", &get, ret_reason);
    if (r == 0)
        r = find(library, "set_curterm", &set_current, ret_reason);
    if (r == 0)
        r = find(library, "del_curterm", &delete, ret_reason);
    if (r < 0)
        return r;
    if (set_up(NULL, 1, &found) == ERR) {
        *ret_reason = "this terminal is unknown; set TERM, or use --json";
        return -ENOTTY;
    }
    const char *sequence = get(cursor_address_name);
    if (!sequence || sequence == (const char *)-1) {
        *ret_reason = "this terminal cannot position its cursor; use --json";
        r = -ENOTTY;
    }
    delete (set_current(NULL));
    return r;
}

int curses_load(const struct curses **ret, const char **ret_reason)
{
    /* The version of the ABI that the header describes. */
    void *library = dlopen("libncursesw.so.6", RTLD_NOW | RTLD_LOCAL);
    int r = 0;

    if (!library) {
        *ret_reason = dlerror();
        return -ENOENT;
    }
    for (size_t i = 0; i < ARRAY_SIZE(functions) && r == 0; i++)
        r = find(library, functions[i].name, (char *)&loaded + functions[i].offset, ret_reason);
    if (r == 0)
        r = check_terminal(library, ret_reason);
    if (r == 0)
        *ret = &loaded; /* the library is never unloaded, because it installs signal handlers */
    return r;
}
