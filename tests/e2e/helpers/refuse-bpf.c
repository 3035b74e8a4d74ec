/* Preloaded: imitates a kernel that refuses to load the programs that REFUSED_PROGRAMS names
 * (separated by blanks; "*": all), and those of a given kind for the given reason. */
#include <dlfcn.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int is_refused(const union bpf_attr *attributes)
{
    const char *refused = getenv("REFUSED_PROGRAMS");
    size_t length = strnlen(attributes->prog_name, sizeof(attributes->prog_name));

    /* libbpf loads small programs without a name to probe what the kernel supports */
    if (!refused || !length || strncmp(attributes->prog_name, "libbpf", 6) == 0)
        return 0;
    if (strcmp(refused, "*") == 0)
        return 1;
    for (const char *at = refused; *at; at += strcspn(at, " "), at += strspn(at, " ")) {
        size_t word = strcspn(at, " ");
        if ((word == length || (word > length && length == sizeof(attributes->prog_name) - 1)) &&
            strncmp(at, attributes->prog_name, length) == 0)
            return 1;
    }
    return 0;
}

long syscall(long number, ...)
{
    static long (*real)(long, ...);
    va_list arguments;
    long values[6];

    va_start(arguments, number);
    for (int i = 0; i < 6; i++)
        values[i] = va_arg(arguments, long);
    va_end(arguments);
    if (!real)
        real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    if (number == SYS_bpf && values[0] == BPF_PROG_LOAD &&
        is_refused((const union bpf_attr *)values[1])) {
        errno = EINVAL;
        return -1;
    }
    return real(number, values[0], values[1], values[2], values[3], values[4], values[5]);
}
