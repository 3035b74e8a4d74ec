#include "model/syscall-name.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "model/syscall-names.h"

const char *syscall_name(unsigned call, char into[static SYSCALL_NAME_SIZE])
{
    bool is_compat = call >= SYSCALL_COMPAT;
    unsigned number = is_compat ? call - SYSCALL_COMPAT : call;
    const char *const *names = is_compat ? compat_names : native_names;
    size_t count = is_compat ? ARRAY_SIZE(compat_names) : ARRAY_SIZE(native_names);

    if (number < count && names[number])
        return names[number];
    if (number == SYSCALL_OTHER)
        return "syscall_out_of_range";
    snprintf(into, SYSCALL_NAME_SIZE, "syscall_0x%x%s", number, is_compat ? "_32bit" : "");
    return into;
}

static bool find_name(const char *const *names, size_t count, const char *name, unsigned *ret)
{
    for (size_t i = 0; i < count; i++)
        if (names[i] && strcmp(names[i], name) == 0) {
            *ret = (unsigned)i;
            return true;
        }
    return false;
}

unsigned syscall_number(const char *name)
{
    unsigned number;
    int length = 0;

    if (find_name(native_names, ARRAY_SIZE(native_names), name, &number))
        return number;
    if (find_name(compat_names, ARRAY_SIZE(compat_names), name, &number))
        return SYSCALL_COMPAT + number;
    if (sscanf(name, "syscall_0x%4x%n", &number, &length) == 1 && !name[length] &&
        number < SYSCALL_OTHER)
        return number;
    return SYSCALL_OTHER;
}
