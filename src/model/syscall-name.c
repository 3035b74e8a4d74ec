#include "model/syscall-name.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

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
